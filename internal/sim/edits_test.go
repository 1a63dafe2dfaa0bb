package sim_test

type edit struct{ file, old, new string }

// edits put the twins' defects into the client. One program has all of them, and its environment says which it is to
// have.
var edits = []edit{
	{
		"internal/observe/operation.go", "o.span.End(trace.WithTimestamp(end))",
		`o.span.End(trace.WithTimestamp(end)); if broken == "a span ends twice" { o.span.End() }`,
	},
	{"internal/conn/deadlines.go", "	d.timer.Stop()", `	if broken != "the timer of a closed connection stays" { d.timer.Stop() }`},
	{
		"internal/observe/meters.go", "		_ = registered.Unregister()",
		`		if broken != "Close leaves the meters registered" { _ = registered.Unregister() }`,
	},
	{"retry/heap.go", "		o.parked--", `		if broken != "an ended call still counts as parked" || !o.closed.Load() { o.parked-- }`},
	{
		"internal/conn/serve.go", "	c.Stats.Orphans.Add(1)",
		`	c.Stats.Orphans.Add(1); if broken == "an unknown opaque ends its connection" { c.Close(ErrOutOfStep) }`,
	},
	{
		"internal/conn/serve.go", "	case p.Status == memd.StatusSuccess:\n",
		"	case p.Status == memd.StatusSuccess:\n" +
			`		if broken == "an unreadable value ends its connection" && p.Datatype&memd.DatatypeSnappy != 0 && len(p.Value) < 8 { c.Close(ErrOutOfStep) }` + "\n",
	},
	{
		"retry/heap.go", "	h.counters().retried(h.Retries(), p.reason, p.transparent)",
		`	if h.req.Service == KV || broken != "a service's retry is not counted" { h.counters().retried(h.Retries(), p.reason, p.transparent) }`,
	},
	{
		"internal/dispatch/router.go", "	r.o.Orchestrator.Wake(func(op retry.Op) bool {",
		`	if broken == "who waits for a way is not woken" { return }; r.o.Orchestrator.Wake(func(op retry.Op) bool {`,
	},
	{
		"internal/dispatch/pipeline.go", "pk != nil && p.conn.Load() == nil && !p.closed {",
		`pk != nil && p.conn.Load() == nil && !p.closed && broken != "who waits for a connection stays there" {`,
	},
	{
		"kv/scan_vbucket.go", "			if !s.seen[string(it.Key)] {",
		`			if !s.seen[string(it.Key)] || broken == "a scan that begins anew gives all again" {`,
	},
	{
		"kv/scan_vbucket.go", "		if done = got.Complete; !s.emit(got.Items) || done {",
		`		if done = got.Complete; !s.emit(got.Items) || done || broken == "a scan ends with its first answer" {`,
	},
	{
		"kv/counter.go", "Value: binary.BigEndian.Uint64(r.Value)}, err",
		`Value: binary.BigEndian.Uint64(r.Value) + map[bool]uint64{true: 1}[broken == "a counter says one too many"]}, err`,
	},
	{
		"internal/observe/operation.go", "case out.ErrorName == \"\":",
		`case out.ErrorName == "" || broken == "every span ends well":`,
	},
	{
		"retry/stats.go", "func (c *tally) count(n int) { c.bucket(n).Add(1) }",
		`func (c *tally) count(n int) { c.bucket(n).Add(1); if broken == "a retry counts twice" { c.bucket(n).Add(1); c.transparent.Add(1); c.reasons[Unknown].transparent.Add(1) } }`,
	},
	{
		"retry/heap.go", "	h.again(p.transparent, p.free, p.pushed)",
		`	h.again(p.transparent, p.free, p.pushed); if broken == "a retry too many is told" && h.Counted == 1 && !p.transparent { h.Counted++; h.counters().retried(h.Retries(), p.reason, false) }`,
	},
	{
		"internal/dispatch/answers.go", "case j.Entry.InvalidatesConnection():",
		`case j.Entry.InvalidatesConnection() && broken != "a connection that is given up stays":`,
	},
	{
		"internal/dispatch/waiting.go", "if full() {",
		`if full() && broken != "any number of calls may wait for a connection" {`,
	},
	{
		"internal/dispatch/answers.go", "if !ok || !r.view.ids.Stale(uid, pathOf(c)) {",
		`if !ok || !r.view.ids.Stale(uid, pathOf(c)) || broken == "a node that lags behind is believed" {`,
	},
	{
		"internal/dispatch/lookup.go", "l.r.view.ids.Refused(l.path, e) {",
		`l.r.view.ids.Refused(l.path, e) && broken != "a refused id is taken again" {`,
	},
	{
		"internal/call/spec.go", `{Name: "mutate-in", Traits: write | Durable | PreservesExpiry,`,
		`{Name: "mutate-in", Traits: func() Traits { if broken == "a change by a path may go twice" { return write | Durable | PreservesExpiry | Idempotent }; return write | Durable | PreservesExpiry }(),`,
	},
	{
		"internal/call/spec.go", `{Name: "get-and-lock", Traits: write,`,
		`{Name: "get-and-lock", Traits: func() Traits { if broken == "a lock may be taken twice" { return write | Idempotent }; return write }(),`,
	},
	{
		"internal/observe/log.go", "	l.write(ctx, slog.LevelWarn, msg, attrs)",
		`	if broken == "a warning is logged as an error" { l.Error(ctx, msg, attrs...); return }; l.write(ctx, slog.LevelWarn, msg, attrs)`,
	},
	{
		"internal/dispatch/executor.go", "{ return len(e.queue) > share*e.free }",
		`{ return len(e.queue) > share*e.free && (e.active == 0 || broken != "one goroutine runs all callbacks") }`,
	},
	{
		"internal/dispatch/executor.go", "	f()\n",
		`	f(); if broken == "the client panics behind a callback" { var none *executor; none.free++ }` + "\n",
	},
	{"internal/conn/deadlines.go", "l.due = append(l.due, c)", `if broken != "deadlines on the wire are not kept" { l.due = append(l.due, c) }`},
	{"retry/state.go", "if !s.Idempotent { // guard: wire", `if !s.Idempotent && broken != "what is lost in flight is sent again" {`},
	{"internal/conn/end.go", "if int(f.end) > n {", `if int(f.end) > n || broken == "what has left whole counts as unsent" {`},
	{
		"retry/state.go", "return unjudged(w) && !s.Idempotent // guard: doubt",
		`return unjudged(w) && !s.Idempotent && broken != "nothing is in doubt" || broken == "everything is in doubt"`,
	},
	{"internal/dispatch/breaker.go", "if canary {", `if canary && broken != "the canary is not sent" {`},
	{"internal/dispatch/own.go", "answers(p.cn) == p.seen {", `answers(p.cn) == p.seen && broken != "a silent connection stays" {`},
	{"internal/dispatch/reconnect.go", "pause(ctx, p.backoff.failed(), logins)", `wait := p.backoff.failed(); if broken == "who cannot connect tries again at once" { wait = time.Millisecond }; pause(ctx, wait, logins)`},
	{
		"retry/course.go", "delay = Controlled(t.step, 0)",
		`if delay = Controlled(t.step, 0); broken == "the wait does not grow" { delay = Controlled(1, 0) }`,
	},
	{"internal/dispatch/nodes.go", "p.close(cause)", `if broken != "Close forgets the nodes" { p.close(cause) }`},
	{"retry/park.go", "if o.parked >= o.opts.MaxParked ||", `if o.parked >= o.opts.MaxParked && broken != "any number of calls may wait" ||`},
	{
		"internal/conn/slots.go", "case t.full():",
		`case t.full() && broken != "any number of calls may be in flight":`,
	},
	{"internal/dispatch/maps.go", "err = m.ours(s)", `if broken != "any newer map replaces the one in use" { err = m.ours(s) }`},
	{
		"internal/dispatch/maps.go", "if err := m.worse(s, old, network); err != nil {",
		`if err := m.worse(s, old, network); err != nil && broken != "any newer map replaces the one in use" {`,
	},
	{
		"internal/dispatch/maps.go", `case s.Bucket != "" && s.Bucket != m.r.o.Bucket:`,
		`case s.Bucket != "" && s.Bucket != m.r.o.Bucket && broken != "another bucket's map replaces ours":`,
	},
	{
		"internal/httpsvc/statement.go", "if s.Mutations > 0 || s.TimedOut() || s.InDoubt() {",
		`if (s.Mutations > 0 || s.TimedOut() || s.InDoubt()) && broken != "a statement executed in part goes again" {`,
	},
	{
		"internal/httpsvc/statement.go", "reason == retry.Unknown && e.Again && s.reads() {",
		`reason == retry.Unknown && e.Again && (s.reads() || broken == "a statement executed in part goes again") {`,
	},
	{
		"retry/orchestrator.go", "case !j.s.Idempotent && !j.why.AllowsNonIdempotent(): // guard: unsafe reason",
		`case !j.s.Idempotent && !j.why.AllowsNonIdempotent() && broken != "a statement executed in part goes again":`,
	},
	{
		"retry/strategy.go", "if why == Unknown || !r.Idempotent && !why.AllowsNonIdempotent() {",
		`if why == Unknown || !r.Idempotent && !why.AllowsNonIdempotent() && broken != "a statement executed in part goes again" {`,
	},
	{
		"retry/orchestrator.go", "case !j.s.Idempotent && j.hint.InDoubt: // guard: executed in part",
		`case !j.s.Idempotent && j.hint.InDoubt && broken != "a statement executed in part goes again":`,
	},
	{
		"internal/httpsvc/statement.go", "InDoubt: s.InDoubt()}",
		`InDoubt: s.InDoubt() && broken != "a statement executed in part just fails"}`,
	},
	{
		"internal/httpsvc/statement.go", "e.InDoubt = s.Mutations > 0",
		`e.InDoubt = s.Mutations > 0 && broken != "a statement executed in part just fails"`,
	},
	{"internal/dispatch/reconnect.go", "return b.starts.Wait()", `if broken == "what hangs up is connected to at once" { return 0 }; return b.starts.Wait()`},
	{
		"core/renew.go", "len(asked) >= w.b.c.cfg.KV.Connections {",
		`len(asked) >= w.b.c.cfg.KV.Connections && broken != "a stale login is renewed at once" {`,
	},
	{
		"retry/park.go", "least = retryFloor // guard",
		`if broken != "what is refused goes again at once" { least = retryFloor } // guard`,
	},
	{
		"retry/park.go", "least = Controlled(made, 0)",
		`if broken != "no delay is too short" { least = Controlled(made, 0) }`,
	},
	{
		"internal/dispatch/incarnation.go", "return old == nil || s.Newer(old) ||",
		`return old == nil || s.Newer(old) || broken == "an older map replaces the one in use" ||`,
	},
	{
		"internal/dispatch/offers.go", "if v := (version{epoch, rev}); v.newer(o.version) {",
		`if v := (version{epoch, rev}); v.newer(o.version) || broken == "an older map replaces the one in use" || broken == "the epoch of a map is ignored" {`,
	},
	{
		"internal/topology/version.go", "case s.Epoch != than.Epoch:",
		`case s.Epoch != than.Epoch && broken != "the epoch of a map is ignored":`,
	},
	{
		"internal/dispatch/answers.go", "if len(pkt.Value) == 0 {",
		`if len(pkt.Value) == 0 || broken == "the map of a refusal is dropped" {`,
	},
	{
		"internal/dispatch/pipeline.go", "p.waiting.release(calls, 0, nil)",
		`if broken != "who waits for a connection is forgotten" { p.waiting.release(calls, 0, nil) }`,
	},
	{
		"internal/conn/serve.go", "if room {",
		`if room && broken != "a full connection never has room again" {`,
	},
	{
		"internal/conn/slots.go", "if uint32(v)>>2 != gen || sent && epoch == 0 {",
		`if broken == "an answer goes to the present call of its slot" { gen = uint32(v)>>2 }; if uint32(v)>>2 != gen || sent && epoch == 0 {`,
	},
	{
		"internal/call/append.go", "if c.Req.Durability != 0 {",
		`if broken == "durability is lost on a retry" && c.Sent() != 0 { c.Req.Durability = 0 }; if c.Req.Durability != 0 {`,
	},
	{
		"retry/orchestrator.go", "case a.kind == again || a.kind == waits:",
		`case (a.kind == again || a.kind == waits) && (j.why != KVTemporaryFailure || broken != "a temporary failure is given up at once"):`,
	},
	{
		"retry/park.go", "	delay := j.delay(a)",
		`	delay := j.delay(a); if broken == "a temporary failure is never sent again" && j.why == KVTemporaryFailure { delay = 1 << 60 }`,
	},
	{
		"retry/park.go", "	delay := j.delay(a)",
		`	delay := j.delay(a); if broken == "a read does not wait for its delay" && j.h.req.Operation == "get" && !j.why.Unseen() { delay = min(delay, retryFloor) }`,
	},
	{
		"retry/course.go", "	return After(delay)",
		`	if broken == "who is sent elsewhere waits too long" && delay > 0 { delay += time.Second }; return After(delay)`,
	},
	{
		"retry/backoff.go", "Schedule(time.Millisecond, 10*time.Millisecond,",
		`Schedule(time.Millisecond, func() time.Duration { if broken == "who is sent elsewhere does not wait longer" { return time.Millisecond }; return 10*time.Millisecond }(),`,
	},
	{
		"internal/call/status.go", "memd.StatusAccess:                    {kind: cberr.AuthenticationFailure},",
		`memd.StatusAccess: func() row { if broken == "a refusal for lack of access is temporary" { return row{kind: cberr.AuthenticationFailure, reason: retry.KVTemporaryFailure} }; return row{kind: cberr.AuthenticationFailure} }(),`,
	},
	{
		"internal/call/status.go", "if d.Class != ClassAskMap || !e.RetryIndicated() {",
		`if d.Class != ClassAskMap || !e.RetryIndicated() || broken == "what the error map has retried is given up" {`,
	},
	{
		"internal/dispatch/policy.go", "why := r.classify(c, err)",
		`why := r.classify(c, err); if broken == "what the program names is not heard" { why = retry.Unknown }; if why != retry.Unknown && broken == "what the program names has another reason" { why = retry.KVTemporaryFailure }`,
	},
	{
		"retry/strategy.go", "if why.Terminal() {",
		`if why.Terminal() && broken != "a terminal cause waits for the deadline" {`,
	},
	{
		"internal/health/health.go", "if !why.Unseen() || why.AlwaysRetry() || why.Terminal() {",
		`if !why.Unseen() || why.AlwaysRetry() || why.Terminal() || broken == "a terminal cause is not told" {`,
	},
	{
		"internal/call/judgement.go", "	j.Err = c.StatusError(p, j.Disposition)\n",
		`	if broken == "a final refusal is sent again" && j.Class == ClassFail && j.NotApplied { j.Class, j.Reason = ClassRetry, retry.KVTemporaryFailure }; j.Err = c.StatusError(p, j.Disposition)` + "\n",
	},
	{
		"retry/strategy.go", "delay := a.delay",
		`delay := a.delay; if broken == "a strategy's delay is cut short" { delay /= 2 }`,
	},
	{
		"retry/orchestrator.go", "func (o *Orchestrator) strategyOf(s *State) Strategy {\n\tif s.Strategy != nil {",
		"func (o *Orchestrator) strategyOf(s *State) Strategy {\n" +
			`if s.Strategy != nil && broken != "all calls have one strategy" {`,
	},
	{
		"internal/handshake/sasl.go", `err := fmt.Errorf("%w: the server offers %v", errNoMechanism, d.mechs)`,
		`err := fmt.Errorf("%w: the server offers %v", errNoMechanism, d.mechs); if broken == "a password is in an error" { err = fmt.Errorf("%w to %s", err, d.creds.Password.Reveal()) }`,
	},
	{
		"internal/handshake/sasl.go", "return m.hash == nil && d.o.TLS == nil && !d.o.AllowPlain",
		`return m.hash == nil && d.o.TLS == nil && !d.o.AllowPlain && broken != "the password goes in the clear"`,
	},
	{
		"internal/handshake/sasl.go", "return d.o.AllowPlain || d.o.TLS != nil",
		`return broken == "the password goes in the clear" || d.o.AllowPlain || d.o.TLS != nil`,
	},
	{
		"internal/handshake/sasl.go", "_, err := l.conv.Step(last)",
		`if broken == "a server need not prove itself" { return nil }; _, err := l.conv.Step(last)`,
	},
	{
		"internal/conn/submit.go", "m, err = c.nc.Write(p.buf[n:])",
		`if m, err = c.nc.Write(p.buf[n:]); err != nil && c.writer.try == nil && broken == "what TLS has written whole counts as unsent" { m = 0 }`,
	},
	{
		"internal/handshake/tls.go", "\tt = t.Clone()",
		"\tt = t.Clone(); t.InsecureSkipVerify = t.InsecureSkipVerify || " + `broken == "any certificate will do"`,
	},
	{
		"internal/handshake/connect.go", "\tencrypted, err := TLS(d.ctx, d.nc, d.o.TLS, d.addr)\n",
		"\tencrypted, err := TLS(d.ctx, d.nc, d.o.TLS, d.addr)\n" +
			`if err != nil && broken == "a port without TLS will do when TLS fails" { host, _, _ := net.SplitHostPort(d.addr); d.nc, err = d.o.Dial(d.ctx, "tcp", net.JoinHostPort(host, "11210")); return err }` + "\n",
	},
	{
		"internal/httpx/client.go", "t := c.tls.Load().Clone()",
		`t := c.tls.Load().Clone(); if t != nil && broken == "any certificate will do for a service" { t.InsecureSkipVerify = true }`,
	},
	{
		"internal/httpx/client.go", "if c.o.Shows == nil {",
		`if c.o.Shows == nil || broken == "any node of a map is told the password" {`,
	},
	{
		"internal/httpx/client.go", "DisableCompression: true,", `DisableCompression: broken != "a packed answer is unpacked",`,
	},
	{
		"internal/httpx/failure.go", "e := &httpsvc.Error{",
		`if broken == "a password is in the error of a service" { if cr, err := k.c.o.Credentials(k.ctx, k.r.Service, k.endpoint, false); err == nil { cause = fmt.Errorf("%w (%s)", cause, cr.Password.Reveal()) } }; e := &httpsvc.Error{`,
	},
	{
		"internal/handshake/sasl.go", "names = d.o.Mechanisms",
		`if broken != "the mechanisms that are set are ignored" { names = d.o.Mechanisms }`,
	},
	{
		"internal/health/health.go", "	if c == nil || t.left ||",
		`	if c == nil || ce.Kind == cberr.TLSFailure && broken == "a failure of TLS is not told" || t.left ||`,
	},
	{
		"internal/health/health.go",
		"func (h *Record) clear(kind *cberr.Kind, which, over func(bucket, addr string) bool) {",
		`func (h *Record) clear(kind *cberr.Kind, which, over func(bucket, addr string) bool) { if kind == cberr.TLSFailure && broken == "a failure of TLS is for ever" { return }`,
	},
	{
		"internal/call/snappy.go", "r.Value, r.Datatype = v, r.Datatype&^memd.DatatypeSnappy",
		`if broken == "a compressed value loses its end" && len(v) > 100 { v = v[:len(v)-8] }; r.Value, r.Datatype = v, r.Datatype&^memd.DatatypeSnappy`,
	},
	{
		"internal/dispatch/maps.go", "if raw, err = call.Inflate(raw, dt, m.r.o.ConfigLimits.MaxBytes); err != nil {",
		`if raw, err = call.Inflate(raw, dt, m.r.o.ConfigLimits.MaxBytes); err == nil && dt&memd.DatatypeSnappy != 0 && broken == "a compressed map is not read" { err = net.ErrClosed }; if err != nil {`,
	},
	{
		"internal/httpsvc/stream.go", "if err := r.rr.Err(); err != nil {",
		`if err := r.rr.Err(); err != nil && broken != "rows that are cut off count as all" {`,
	},
	{
		"internal/httpx/judge.go", "\t\treturn seconds * time.Second, true",
		"\t\tif broken == " + `"a service comes back sooner than it was told"` + " { seconds = 0 }; return seconds * time.Second, true",
	},
	{
		"internal/httpx/call.go", "	resp, err := k.run()\n	k.c.gate.leave(&k.lead)\n",
		"	resp, err := k.run()\n" +
			`	if err == nil || broken != "a failed request stays first in its queue" { k.c.gate.leave(&k.lead) }` + "\n",
	},
	{
		"internal/httpx/pick.go", "	if len(all) == 0 {\n",
		`	if broken == "a node that failed is not asked again" { c.sick.mu.Lock(); all = slices.DeleteFunc(slices.Clone(all), func(a string) bool { return !c.sick.until[a].IsZero() }); c.sick.mu.Unlock() }` +
			"\n	if len(all) == 0 {\n",
	},
	{
		"kv/scan_vbucket.go", "return pauseFor(s.r.ctx, s.wait)",
		`return broken == "a scan without progress goes on at once" || pauseFor(s.r.ctx, s.wait)`,
	},
	{
		"collections/cache.go", "if e, ok := old[p]; !ok || e.ID != id {",
		`if e, ok := old[p]; !ok || e.ID != id || broken == "an unknown collection stays in the cache" {`,
	},
}

const twinSwitch = "package %s\n\nimport \"os\"\n\nvar broken = os.Getenv(\"COUCHCORE_BROKEN\")\n"
