package services

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// visible are the functions that the user may manage, by name.
func (c *eventingCall) visible() []*function {
	out := []*function{}
	for _, f := range slices.SortedFunc(maps.Values(c.functions), func(a, b *function) int {
		return cmp.Compare(a.at().String(), b.at().String())
	}) {
		if c.mayManage(f.Scope) {
			out = append(out, f)
		}
	}
	return out
}

func (c *eventingCall) list() (any, *eventingFailure) {
	out := c.visible()
	for i := range out {
		out[i] = out[i].shown()
	}
	return out, nil
}

func (c *eventingCall) get() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	return f.shown(), nil
}

// put stores the function of the body, whose name is that of the path.
func (c *eventingCall) put() (any, *eventingFailure) {
	f, failure := c.given.function, c.given.unreadable
	if failure != nil {
		return nil, failure
	}
	switch {
	case f.Name != c.at.name:
		return nil, appNameMismatch.because("the name of the path is %s, that of the body %s", c.at.name, f.Name)
	case !c.rq.Query.Has("bucket"):
	case c.newRules:
		f.Scope = c.at.scope
	case f.Scope != c.at.scope:
		return nil, invalidRequest.because("the scope of the query is %s, that of the body %s", c.at.scope, f.Scope)
	}
	return c.store(f, c.given.uncompiled)
}

// store creates a function or replaces it. uncompiled refuses its code; nil for code that compiles, or that is stored
// already.
func (c *eventingCall) store(f *function, uncompiled *eventingFailure) (any, *eventingFailure) {
	c.at = f.at()
	old := c.functions[c.at]
	if !c.mayManage(f.Scope) || !c.may(f.Bindings.SourceBucket) || !c.may(f.Bindings.MetadataBucket) {
		return nil, eventingForbidden.because("the user may not manage the functions of %s", f.Scope)
	}
	if old == nil && (f.flag("deployment_status") != f.flag("processing_status") || c.newRules) {
		for _, name := range stateSettings {
			if _, ok := f.Settings[name].(bool); ok || f.Settings[name] == nil {
				f.Settings[name] = f.flag("deployment_status") && f.flag("processing_status")
			}
		}
	}
	if old != nil {
		f.Bindings.keepSecrets(&old.Bindings)
	}
	if failure := cmp.Or(c.check(f), uncompiled); failure != nil {
		return nil, failure
	}
	if failure := c.mayReplace(old, f); failure != nil {
		return nil, failure
	}
	before := undeployed
	f.ID, f.Instance = rand.Uint32(), freshUUID()[:6]
	if old != nil {
		before, f.ID = old.target(), old.ID
		if before != undeployed {
			f.Instance = old.Instance
		}
	}
	if f.moving = f.target() != before; f.moving {
		f.since = c.now
	}
	c.functions[c.at] = f
	return doneWith("Function: %s is stored", c.at), nil
}

// mayReplace refuses a change that the state of the function before does not allow.
func (c *eventingCall) mayReplace(old, f *function) *eventingFailure {
	switch {
	case f.flag("processing_status") && !f.flag("deployment_status"):
		return c.invalid("a function that processes is deployed")
	case old == nil && f.target() == deployed:
		return c.keyspaces(f)
	case old == nil:
		return nil
	case old.target() == deployed && c.newRules:
		return invalidRequest.because("Function: %s is deployed", c.at)
	case old.target() == deployed:
		return appDeployed.because("Function: %s is deployed", c.at)
	case old.target() == paused && (old.Bindings.source() != f.Bindings.source() ||
		old.Bindings.metadata() != f.Bindings.metadata()):
		return c.invalid("source and metadata change only while the function is undeployed")
	}
	return c.mayMove(old, f)
}

func (c *eventingCall) drop() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	if query := c.rq.Query; query.Has("handleruuid") && query.Get("handleruuid") != fmt.Sprint(f.ID) {
		return nil, invalidRequest.because("Function: %s has another handleruuid", c.at)
	}
	if f.target() != undeployed || c.newRules && c.composite(f) != "undeployed" {
		return nil, appNotUndeployed.because("Function: %s is %s", c.at, c.composite(f))
	}
	delete(c.functions, c.at)
	return doneWith("Function: %s is deleted", c.at), nil
}

func (c *eventingCall) getSettings() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	return f.Settings, nil
}

func (c *eventingCall) putSettings() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	var settings map[string]any
	if err := jsonInto(c.rq.Body, &settings); err != nil || settings == nil {
		return nil, unmarshalFailed.because("the body is not a JSON object")
	}
	if failure := c.change(f, settings); failure != nil {
		return nil, failure
	}
	return doneWith("Function: %s has its settings", c.at), nil
}

func (c *eventingCall) getBindings() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	return f.Bindings.shown(), nil
}

func (c *eventingCall) putBindings() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	next := f.clone()
	next.Bindings = bindings{}
	if err := jsonInto(c.rq.Body, &next.Bindings); err != nil {
		return nil, unmarshalFailed.because("the body is not a configuration: %v", err)
	}
	next.Bindings.complete()
	return c.store(next, nil)
}
