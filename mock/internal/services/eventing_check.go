package services

import (
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	maxFunction     = 128 << 10 // bytes of a function
	maxFunctionName = 100
	maxAlias        = 64
	maxUserPrefix   = 16
)

// HandlerEngine is a ViewEngine that also compiles the code of functions of the eventing service.
type HandlerEngine interface {
	// CheckHandler reports why a server would not compile the code, and where: line and column count from 1, and are 0
	// when the error is not at a place. It may be called from several goroutines at once.
	CheckHandler(code string) (line, column int, err error)
}

// compilation is what a server says about code that does not compile.
type compilation struct {
	Area        string `json:"area"`
	Column      int    `json:"column_number"`
	Success     bool   `json:"compile_success"`
	Description string `json:"description"`
	Index       int    `json:"index"`
	Language    string `json:"language"`
	Line        int    `json:"line_number"`
}

var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*$`)
	identifier   = regexp.MustCompile(`^[a-zA-Z_$][a-zA-Z0-9_$]*$`)
)

// reserved are names that an alias may not have: JavaScript's, and statements'.
var reserved = setOf(`abstract await boolean break byte case catch char class const continue debugger default delete do
	double enum else export extends final finally float for function goto if implements import interface in instanceof
	int let long native new package private protected public return short static super switch synchronized this throw
	throws transient try typeof var void volatile while with yield alter build create drop execute explain from grant
	infer insert merge prepare rename select revoke update upsert`)

// check refuses a definition that a server does not take, but for its code.
func (c *eventingCall) check(f *function) *eventingFailure {
	const system = "_system"
	b := &f.Bindings
	switch {
	case f.Name == "" || len(f.Name) > maxFunctionName || !functionName.MatchString(f.Name):
		return c.invalid("a function's name has 1 to %d letters, digits, _ and -, and begins with a letter or a digit",
			maxFunctionName)
	case b.SourceScope == system || b.MetadataScope == system || f.Scope.Scope == system:
		return invalidRequest.because("functions have no part in the scope _system")
	case b.SourceBucket == "":
		return c.invalid("the source bucket is missing")
	case b.MetadataBucket == "":
		return c.invalid("the metadata bucket is missing")
	case f.Scope != anyScope && !c.s.host.HasScope(f.Scope.Bucket, f.Scope.Scope):
		return bucketMissing.because("there is no scope %s", f.Scope)
	}
	if !c.newRules {
		if failure := c.keyspaces(f); failure != nil {
			return failure
		}
	}
	if failure := c.checkBindings(b); failure != nil {
		return failure
	}
	if f.Code == "" {
		return c.invalid("the code is missing")
	}
	if failure := c.checkSettings(f.Settings); failure != nil {
		return failure
	}
	switch {
	case b.source() == b.metadata() && c.newRules:
		return invalidRequest.because("the source %s is the metadata keyspace", b.source())
	case b.source() == b.metadata():
		return sourceIsMetadata.because("the source %s is the metadata keyspace", b.source())
	case f.size() > maxFunction:
		return appCodeSize.because("Function: %s has more than %d bytes", c.at, maxFunction)
	}
	return nil
}

// givenFunction is the function of a body, with what is wrong with it by itself.
type givenFunction struct {
	function   *function
	unreadable *eventingFailure // there is no function then
	uncompiled *eventingFailure // its code does not compile, which counts when nothing else is wrong
}

// readGiven reads the function of the body and compiles its code. The caller does not have the mutex: the engine's time
// grows with the square of what is nested.
func (x *Call) readGiven() givenFunction {
	list, failure := readFunctions(x.rq.Body)
	if failure == nil && len(list) != 1 {
		failure = unmarshalFailed.because("the body has %d functions", len(list))
	}
	if failure != nil {
		return givenFunction{unreadable: failure}
	}
	return givenFunction{function: list[0], uncompiled: x.compile(list[0].Code)}
}

// compile refuses code that does not compile; without an engine all of it does. Code that is too long for a function is
// refused as that.
func (x *Call) compile(code string) *eventingFailure {
	engine, ok := x.s.engine.(HandlerEngine)
	if !ok || len(code) > maxFunction {
		return nil
	}
	line, column, err := engine.CheckHandler(code)
	if err == nil {
		return nil
	}
	return &eventingFailure{handlerCompilation, compilation{
		Area: "handlerCode", Column: column, Description: err.Error(), Language: "Javascript", Line: line,
	}}
}

// keyspaces refuses a function whose source or metadata does not exist.
func (c *eventingCall) keyspaces(f *function) *eventingFailure {
	if f.Bindings.MetadataScope == "*" || f.Bindings.MetadataCollection == "*" {
		return invalidRequest.because("the metadata keyspace is one collection")
	}
	if failure := c.keyspace(f.Bindings.source()); failure != nil {
		return failure
	}
	return c.keyspace(f.Bindings.metadata())
}

// keyspace refuses a keyspace that does not exist. A collection or both parts may be * for all.
func (c *eventingCall) keyspace(k keyspace) *eventingFailure {
	exists := true
	switch {
	case c.s.host.BucketUUID(k[0]) == "":
		return bucketMissing.because("there is no bucket %s", k[0])
	case k[1] == "*" && k[2] != "*":
		return invalidRequest.because("a keyspace of all scopes is one of all collections")
	case k[1] == "*":
	case k[2] == "*":
		exists = c.s.host.HasScope(k[0], k[1])
	default:
		_, exists = c.s.host.Collection(k[0], k[1], k[2])
	}
	switch {
	case exists:
		return nil
	case c.newRules:
		return collectionMissing80.because("there is no keyspace %s", k)
	}
	return collectionMissing.because("there is no keyspace %s", k)
}

// checkBindings refuses aliases that JavaScript does not take, and keyspaces that do not exist.
func (c *eventingCall) checkBindings(b *bindings) *eventingFailure {
	known := map[string]bool{}
	alias := func(name string) *eventingFailure {
		switch {
		case name == "" || len(name) > maxAlias || !identifier.MatchString(name) || reserved[strings.ToLower(name)]:
			return c.invalid("the alias %q is not the name of a variable with at most %d characters", name, maxAlias)
		case known[name]:
			return c.invalid("the alias %s is used twice", name)
		}
		known[name] = true
		return nil
	}
	for _, k := range b.Buckets {
		if failure := alias(k.Alias); failure != nil {
			return failure
		}
		if failure := c.keyspace(keyspace{k.Bucket, k.Scope, k.Collection}); failure != nil && !c.newRules {
			return failure
		}
		if k.Access != "r" && k.Access != "rw" {
			return bucketAccess.because("the access of %s is r or rw", k.Alias)
		}
	}
	for _, u := range b.URLs {
		if failure := alias(u.Alias); failure != nil {
			return failure
		}
		if !isHTTP(u.Hostname) || !slices.Contains([]string{"no-auth", "basic", "bearer", "digest"}, u.Auth) {
			return c.invalid("the binding %s has a hostname with http or https and one of the known auth_type", u.Alias)
		}
	}
	for _, k := range b.Constants {
		if failure := alias(k.Alias); failure != nil {
			return failure
		}
		if k.Literal == "" {
			return c.invalid("the constant %s has no literal", k.Alias)
		}
	}
	return nil
}

func isHTTP(address string) bool {
	u, err := url.ParseRequestURI(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// stateSettings are the settings that are the state.
var stateSettings = []string{"deployment_status", "processing_status"}

// dynamicSettings may be changed while a function is deployed.
var dynamicSettings = setOf("description log_level timer_context_size deployment_status processing_status")

// languages are the values of language_compatibility, the newest first.
var languages = []string{"7.2.0", "6.6.2", "6.0.0", "6.5.0"}

// Settings by the type that they must have.
var (
	booleanSettings = setOf(`deployment_status processing_status n1ql_prepare_all allow_transaction_mutations
		cursor_aware enable_applog_rotation`)
	countSettings = setOf(`checkpoint_interval cpp_worker_thread_count curl_max_allowed_resp_size execution_timeout
		cursor_checkpoint_timeout feedback_batch_size feedback_read_buffer_size idle_checkpoint_interval
		poll_bucket_interval sock_batch_size timer_context_size tick_duration worker_count worker_feedback_queue_cap
		worker_queue_cap worker_queue_mem_cap worker_response_timeout timer_queue_mem_cap timer_queue_size
		undeploy_routine_count bucket_cache_size bucket_cache_age vb_ownership_giveup_routine_count
		vb_ownership_takeover_routine_count app_log_max_size app_log_max_files agg_dcp_feed_mem_cap data_chan_size
		dcp_window_size dcp_gen_chan_size dcp_num_connections lcb_inst_capacity lcb_timeout num_timer_partitions`)
	listSettings   = setOf("handler_headers handler_footers")
	choiceSettings = map[string][]string{
		"language_compatibility": languages, "dcp_stream_boundary": {"everything", "from_now"},
		"log_level":        {"INFO", "ERROR", "WARNING", "DEBUG", "TRACE"},
		"n1ql_consistency": {"none", "request"},
	}
)

// checkSettings refuses settings without the state, and values that a setting cannot have.
func (c *eventingCall) checkSettings(settings map[string]any) *eventingFailure {
	for _, name := range slices.Concat(stateSettings, slices.Sorted(maps.Keys(settings))) {
		if wanted := settingWants(name, settings[name]); wanted != "" {
			return c.invalid("%s must be %s", name, wanted)
		}
	}
	return nil
}

// settingWants says what a setting must be, when its value is something else.
func settingWants(name string, v any) string {
	text, isText := v.(string)
	number, isNumber := v.(float64)
	_, isBool := v.(bool)
	switch choices := choiceSettings[name]; {
	case booleanSettings[name] && !isBool:
		return "true or false"
	case countSettings[name] && (!isNumber || number <= 0 || number != math.Trunc(number)):
		return "a positive whole number"
	case name == "timer_context_size" && (number < 20 || number > 19<<20):
		return "from 20 bytes to 19 MiB"
	case name == "lcb_retry_count" && (!isNumber || number < 0 || number != math.Trunc(number)):
		return "a whole number of at least 0"
	case name == "user_prefix" && (text == "" || len(text) > maxUserPrefix):
		return "a text of 1 to 16 bytes"
	case choices != nil && (!isText || !slices.Contains(choices, text)):
		return "one of " + strings.Join(choices, ", ")
	case listSettings[name] && !isTexts(v):
		return "a list of texts"
	}
	return ""
}

func isTexts(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(e any) bool {
		_, isText := e.(string)
		return !isText
	})
}

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}
