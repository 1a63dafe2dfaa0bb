package control

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Match says which requests of the key-value service are meant; every member that is there must fit.
type Match struct {
	Nodes       []int    `json:"nodes,omitempty" doc:"numbers of nodes"`
	Opcodes     []string `json:"opcodes,omitempty" doc:"names, such as GET, SET or SUBDOC_MULTI_LOOKUP, or numbers, such as 0x00; any of them"`
	Key         string   `json:"key,omitempty" doc:"of the document"`
	KeyBase64   string   `json:"key_base64,omitempty" doc:"instead of key, for one that is not text"`
	KeyPattern  string   `json:"key_pattern,omitempty" doc:"a regular expression (RE2) that the key must match"`
	Bucket      string   `json:"bucket,omitempty"`
	Collection  string   `json:"collection,omitempty" doc:"scope.collection"`
	Skip        int      `json:"skip,omitempty" doc:"so many of the requests pass first"`
	Times       int      `json:"times,omitempty" doc:"how often; 0 for always"`
	Probability float64  `json:"probability,omitempty" doc:"of meeting a request, between 0 and 1; absent for every one"`
	Seed        uint64   `json:"seed,omitempty" doc:"of the random numbers behind the probability"`
}

func (m *Match) read(c *call) (out mock.Match, err error) {
	out = mock.Match{
		Nodes: m.Nodes, Bucket: m.Bucket, Collection: m.Collection, Skip: m.Skip, Times: m.Times,
		Probability: m.Probability, Seed: m.Seed,
	}
	if err := c.nodes("match.nodes", m.Nodes); err != nil {
		return out, err
	}
	for i, name := range m.Opcodes {
		op, err := opcode(fmt.Sprintf("match.opcodes[%d]", i), name)
		if err != nil {
			return out, err
		}
		out.Opcodes = append(out.Opcodes, op)
	}
	if out.Key, err = bytesOf("match.key", m.Key, m.KeyBase64); err != nil {
		return out, err
	}
	if out.KeyPattern, err = pattern("match.key_pattern", m.KeyPattern); err != nil {
		return out, err
	}
	return out, often(m.Skip, m.Times, m.Probability)
}

// pattern compiles a regular expression; an empty one means none.
func pattern(field, s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil
	}
	p, err := regexp.Compile(s)
	if err != nil {
		return nil, invalid(field, "%v", err)
	}
	return p, nil
}

// often checks how often something acts.
func often(skip, times int, probability float64) error {
	switch {
	case skip < 0:
		return invalid("match.skip", "%d is negative", skip)
	case times < 0:
		return invalid("match.times", "%d is negative", times)
	case probability < 0 || probability > 1:
		return invalid("match.probability", "%v is not between 0 and 1", probability)
	}
	return nil
}

// Injection puts faults in force.
type Injection struct {
	Match  Match   `json:"match"`
	Fault  *Fault  `json:"fault,omitempty" doc:"what happens to the requests"`
	Faults []Fault `json:"faults,omitempty" doc:"instead of fault: the first for the first request, and so on, the last one for all that follow"`
}

// Fault is what happens to a request: all of its members together.
type Fault struct {
	Status       string          `json:"status,omitempty" doc:"answer with this status, a name such as ETMPFAIL or a number such as 0x86, and do not execute the request"`
	StatusAfter  string          `json:"status_after,omitempty" doc:"execute the request and then answer with this status"`
	ErrorBody    json.RawMessage `json:"error_body,omitempty" doc:"JSON body of the answer that status makes"`
	Reply        *Reply          `json:"reply,omitempty" doc:"do not execute the request, and answer this"`
	Request      *Rewrite        `json:"rewrite_request,omitempty" doc:"change the request before it is executed"`
	Answer       *Rewrite        `json:"rewrite_answer,omitempty" doc:"change the answer"`
	Wire         []ByteEdit      `json:"wire,omitempty" doc:"change bytes of the encoded answer, header included"`
	Delay        int64           `json:"delay_ms,omitempty" doc:"before the request is executed"`
	DelayReply   int64           `json:"delay_reply_ms,omitempty" doc:"between execution and answer"`
	Hold         bool            `json:"hold,omitempty" doc:"wait for release before the request is executed"`
	HoldReply    bool            `json:"hold_reply,omitempty" doc:"wait for release between execution and answer"`
	Drop         bool            `json:"drop,omitempty" doc:"neither execute nor answer"`
	DropReply    bool            `json:"drop_reply,omitempty" doc:"execute, and do not answer"`
	Close        string          `json:"close,omitempty" doc:"close the connection: before or reset (instead of executing), after (instead of answering) or answered"`
	Truncate     *int            `json:"truncate,omitempty" doc:"send so many bytes of the answer, and close the connection"`
	Twice        bool            `json:"twice,omitempty" doc:"send the answer two times"`
	Corrupt      string          `json:"corrupt,omitempty" doc:"make the answer's magic, length, parts or opaque wrong"`
	LoseWrite    bool            `json:"lose_write,omitempty" doc:"acknowledge a mutation without applying it"`
	NotMyVBucket bool            `json:"not_my_vbucket,omitempty" doc:"answer that the vbucket is elsewhere, with a configuration"`
	Config       json.RawMessage `json:"config,omitempty" doc:"that configuration; absent for the one in force"`
	NoConfig     bool            `json:"no_config,omitempty" doc:"without a configuration"`
}

// Reply is an answer of the caller's making.
type Reply struct {
	Status      string          `json:"status,omitempty" doc:"a name or a number; success unless told"`
	CAS         string          `json:"cas,omitempty" doc:"a number of 64 bits as text"`
	Flags       *uint32         `json:"flags,omitempty" doc:"extras of the answer to a read: 33554438 for JSON"`
	JSON        json.RawMessage `json:"json,omitempty" doc:"the value, as JSON"`
	Value       string          `json:"value,omitempty" doc:"the value, as text"`
	ValueBase64 string          `json:"value_base64,omitempty"`
	Extras      string          `json:"extras_hex,omitempty"`
}

// Rewrite changes a packet: absent members leave it as it is.
type Rewrite struct {
	Status      string          `json:"status,omitempty" doc:"of an answer"`
	CAS         string          `json:"cas,omitempty"`
	VBucket     *uint16         `json:"vbucket,omitempty" doc:"of a request"`
	Datatype    *uint8          `json:"datatype,omitempty"`
	JSON        json.RawMessage `json:"json,omitempty" doc:"the whole value, as JSON"`
	Value       *string         `json:"value,omitempty" doc:"the whole value, as text"`
	ValueBase64 string          `json:"value_base64,omitempty"`
	Extras      *string         `json:"extras_hex,omitempty"`
	Patch       []PatchOp       `json:"json_patch,omitempty" doc:"operations on a value that is JSON (RFC 6902); a value that they cannot be applied to stays as it is"`
	Bytes       []ByteEdit      `json:"bytes,omitempty" doc:"edits of the value's bytes"`
}

// ByteEdit replaces bytes.
type ByteEdit struct {
	At     int    `json:"at" doc:"where; negative counts from the end"`
	Remove int    `json:"remove,omitempty" doc:"so many bytes go there"`
	Hex    string `json:"hex,omitempty" doc:"and these come; without remove they overwrite as many"`
}

func inject(c *call, in *Injection) (InForce, error) {
	m, err := in.Match.read(c)
	if err != nil {
		return InForce{}, err
	}
	given, name := in.Faults, "faults"
	if in.Fault != nil {
		if in.Faults != nil {
			return InForce{}, invalid("faults", "there is a fault already")
		}
		given, name = []Fault{*in.Fault}, "fault"
	}
	if len(given) == 0 {
		return InForce{}, invalid("fault", "say what happens to the requests")
	}
	if len(given) > MaxObjects {
		return InForce{}, tooMany("faults", MaxObjects)
	}
	var faults []mock.Fault
	for i := range given {
		field := name
		if in.Fault == nil {
			field = fmt.Sprintf("faults[%d]", i)
		}
		f, err := given[i].make(field + ".")
		if err != nil {
			return InForce{}, err
		}
		faults = append(faults, f)
	}
	return c.x.put(injections, &inForce{what: in}, func() *mock.Injection { return c.x.c.Inject(m, faults...) })
}

// make is the mock's fault.
func (f *Fault) make(at string) (mock.Fault, error) {
	var parts []mock.Fault
	for _, row := range []struct {
		is   bool
		make func() mock.Fault
	}{
		{f.Delay > 0, func() mock.Fault { return mock.Delay(time.Duration(f.Delay) * time.Millisecond) }},
		{f.DelayReply > 0, func() mock.Fault {
			return mock.DelayReply(time.Duration(f.DelayReply) * time.Millisecond)
		}},
		{f.Hold, mock.Hold},
		{f.HoldReply, mock.HoldReply},
		{f.Drop, mock.Drop},
		{f.DropReply, mock.DropReply},
		{f.Twice, mock.Twice},
		{f.LoseWrite, mock.LoseWrite},
		{f.NotMyVBucket, func() mock.Fault { return mock.NotMyVBucket(!f.NoConfig, f.Config) }},
	} {
		if row.is {
			parts = append(parts, row.make())
		}
	}
	for name, d := range map[string]int64{"delay_ms": f.Delay, "delay_reply_ms": f.DelayReply} {
		if d < 0 || d > MaxWait.Milliseconds() {
			e := invalid(at+name, "%d ms are not allowed", d)
			e.Limit = MaxWait.Milliseconds()
			return mock.Fault{}, e
		}
	}
	for _, more := range []func(string) ([]mock.Fault, error){f.statuses, f.rewrites, f.endings} {
		list, err := more(at)
		if err != nil {
			return mock.Fault{}, err
		}
		parts = append(parts, list...)
	}
	return mock.Combine(parts...), nil
}

// statuses are the faults that decide the answer.
func (f *Fault) statuses(at string) (out []mock.Fault, err error) {
	if f.Status != "" {
		s, err := status(at+"status", f.Status)
		if err != nil {
			return nil, err
		}
		if f.ErrorBody != nil {
			return []mock.Fault{mock.ErrorBody(s, f.ErrorBody)}, nil
		}
		out = append(out, mock.Status(s))
	} else if f.ErrorBody != nil {
		return nil, invalid(at+"error_body", "needs a status")
	}
	if f.StatusAfter != "" {
		s, err := status(at+"status_after", f.StatusAfter)
		if err != nil {
			return nil, err
		}
		out = append(out, mock.StatusAfter(s))
	}
	if f.Reply != nil {
		apply, err := f.Reply.rewrite().make(at + "reply.")
		if err != nil {
			return nil, err
		}
		flags := f.Reply.Flags
		out = append(out, mock.Reply(func(_, rep *memd.Packet) {
			if flags != nil {
				rep.Extras = binary.BigEndian.AppendUint32(nil, *flags)
			}
			apply(rep)
		}))
	}
	return out, nil
}

// rewrite is the reply as a change of an empty answer.
func (r *Reply) rewrite() *Rewrite {
	out := &Rewrite{Status: r.Status, CAS: r.CAS, JSON: r.JSON, ValueBase64: r.ValueBase64}
	if r.Value != "" {
		out.Value = &r.Value
	}
	if r.Extras != "" {
		out.Extras = &r.Extras
	}
	return out
}

// rewrites are the faults that change packets.
func (f *Fault) rewrites(at string) (out []mock.Fault, err error) {
	if f.Request != nil {
		apply, err := f.Request.make(at + "rewrite_request.")
		if err != nil {
			return nil, err
		}
		out = append(out, mock.RewriteRequest(apply))
	}
	if f.Answer != nil {
		apply, err := f.Answer.make(at + "rewrite_answer.")
		if err != nil {
			return nil, err
		}
		out = append(out, mock.Rewrite(func(_, rep *memd.Packet) { apply(rep) }))
	}
	if len(f.Wire) > 0 {
		edit, err := edits(at+"wire", f.Wire)
		if err != nil {
			return nil, err
		}
		out = append(out, mock.Corrupt(edit))
	}
	return out, nil
}

// endings are the faults that end connections or make answers unreadable.
func (f *Fault) endings(at string) (out []mock.Fault, err error) {
	switch f.Close {
	case "":
	case "before":
		out = append(out, mock.CloseBefore())
	case "after":
		out = append(out, mock.CloseAfter())
	case "answered":
		out = append(out, mock.CloseAnswered())
	case "reset":
		out = append(out, mock.ResetBefore())
	default:
		return nil, invalid(at+"close", "%q is not before, after, answered or reset", f.Close)
	}
	if f.Truncate != nil {
		out = append(out, mock.Truncate(*f.Truncate))
	}
	corruptions := map[string]func() mock.Fault{
		"magic": mock.CorruptMagic, "length": mock.CorruptLength, "parts": mock.CorruptParts,
		"opaque": mock.CorruptOpaque,
	}
	if f.Corrupt != "" {
		corruption := corruptions[f.Corrupt]
		if corruption == nil {
			return nil, invalid(at+"corrupt", "%q is not magic, length, parts or opaque", f.Corrupt)
		}
		out = append(out, corruption())
	}
	return out, nil
}

// make is the function that changes a packet.
func (w *Rewrite) make(at string) (func(*memd.Packet), error) {
	var steps []func(*memd.Packet)
	then := func(step func(*memd.Packet)) { steps = append(steps, step) }
	if w.Status != "" {
		s, err := status(at+"status", w.Status)
		if err != nil {
			return nil, err
		}
		then(func(p *memd.Packet) { p.Status = s })
	}
	if w.CAS != "" {
		cas, err := number(at+"cas", w.CAS)
		if err != nil {
			return nil, err
		}
		then(func(p *memd.Packet) { p.CAS = cas })
	}
	if w.VBucket != nil {
		then(func(p *memd.Packet) { p.VBucket = *w.VBucket })
	}
	if w.Extras != nil {
		b, err := hex.DecodeString(*w.Extras)
		if err != nil {
			return nil, invalid(at+"extras_hex", "%v", err)
		}
		then(func(p *memd.Packet) { p.Extras = b })
	}
	if err := w.value(at, then); err != nil {
		return nil, err
	}
	if w.Datatype != nil {
		then(func(p *memd.Packet) { p.Datatype = memd.Datatype(*w.Datatype) })
	}
	return func(p *memd.Packet) {
		for _, step := range steps {
			step(p)
		}
	}, nil
}

// value adds the steps that change the value.
func (w *Rewrite) value(at string, then func(func(*memd.Packet))) error {
	switch {
	case w.JSON != nil:
		then(func(p *memd.Packet) { p.Value, p.Datatype = w.JSON, memd.DatatypeJSON })
	case w.Value != nil:
		then(func(p *memd.Packet) { p.Value, p.Datatype = []byte(*w.Value), 0 })
	case w.ValueBase64 != "":
		b, err := bytesOf(at+"value", "", w.ValueBase64)
		if err != nil {
			return err
		}
		then(func(p *memd.Packet) { p.Value, p.Datatype = b, 0 })
	}
	for i := range w.Patch {
		if err := w.Patch[i].check(); err != nil {
			return invalid(fmt.Sprintf("%sjson_patch[%d]", at, i), "%v", err)
		}
	}
	if len(w.Patch) > 0 {
		then(func(p *memd.Packet) {
			if b, err := patch(p.Value, w.Patch); err == nil {
				p.Value = b
			}
		})
	}
	if len(w.Bytes) > 0 {
		edit, err := edits(at+"bytes", w.Bytes)
		if err != nil {
			return err
		}
		then(func(p *memd.Packet) { p.Value = edit(p.Value) })
	}
	return nil
}

// edits is the function that edits bytes. It gives back bytes of its own.
func edits(field string, list []ByteEdit) (func([]byte) []byte, error) {
	with := make([][]byte, len(list))
	for i, e := range list {
		b, err := hex.DecodeString(e.Hex)
		if err != nil {
			return nil, invalid(fmt.Sprintf("%s[%d].hex", field, i), "%v", err)
		}
		if e.Remove < 0 {
			return nil, invalid(fmt.Sprintf("%s[%d].remove", field, i), "%d is negative", e.Remove)
		}
		with[i] = b
	}
	return func(b []byte) []byte {
		for i, e := range list {
			at := e.At
			if at < 0 {
				at += len(b)
			}
			at = min(max(0, at), len(b))
			gone := e.Remove
			if gone == 0 {
				gone = len(with[i])
			}
			end := min(at+gone, len(b))
			b = append(append(append([]byte{}, b[:at]...), with[i]...), b[end:]...)
		}
		return b
	}, nil
}
