package services

import (
	"maps"
	"net/http"
	"time"
)

// functionState is where a function is going or has arrived.
type functionState uint8

const (
	undeployed functionState = iota
	deployed
	paused
)

// settling is how long a transition lasts when no status is asked for. The first status that shows it ends it.
const settling = 100 * time.Millisecond

var (
	stateNames = [...]string{undeployed: "undeployed", deployed: "deployed", paused: "paused"}
	moveNames  = [...]string{undeployed: "undeploying", deployed: "deploying", paused: "pausing"}
)

// target is the state that the settings ask for.
func (f *function) target() functionState {
	switch {
	case !f.flag("deployment_status"):
		return undeployed
	case f.flag("processing_status"):
		return deployed
	default:
		return paused
	}
}

// composite is the state as a status names it.
func (c *eventingCall) composite(f *function) string {
	if f.moving && c.now.Sub(f.since) >= settling {
		f.moving = false
	}
	if f.moving {
		return moveNames[f.target()]
	}
	return stateNames[f.target()]
}

// moveTo replaces the settings, and begins a transition when they ask for another state.
func (c *eventingCall) moveTo(f *function, settings map[string]any) {
	before := f.target()
	f.Settings = settings
	if f.target() != before {
		f.moving, f.since = true, c.now
	}
}

func (c *eventingCall) deploy() (any, *eventingFailure) {
	return c.verb(map[functionState]eventingCode{deployed: appDeployed, paused: appPaused}, true, true, "deploying")
}

func (c *eventingCall) undeploy() (any, *eventingFailure) {
	return c.verb(map[functionState]eventingCode{undeployed: appNotDeployed}, false, false, "undeploying")
}

func (c *eventingCall) pause() (any, *eventingFailure) {
	return c.verb(map[functionState]eventingCode{paused: appPaused}, true, false, "Pausing")
}

func (c *eventingCall) resume() (any, *eventingFailure) {
	refused := map[functionState]eventingCode{deployed: appDeployed, undeployed: appNotDeployed}
	return c.verb(refused, true, true, "Resuming")
}

// verb changes the state. Releases before 8.0 refuse some states, and read the body of a deployment: one that is no
// JSON object is an error of the server, by functionDeploy in 7.6's service_manager/http_handlers.go.
func (c *eventingCall) verb(
	refused map[functionState]eventingCode, deployment, processing bool, doing string,
) (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	if code, ok := refused[f.target()]; ok && !c.newRules {
		return nil, code.because("Function: %s is already %s", c.at, stateNames[f.target()])
	}
	settings := map[string]any{}
	if len(c.rq.Body) > 0 && doing == "deploying" && !c.newRules {
		if err := jsonInto(c.rq.Body, &settings); err != nil || settings == nil {
			return nil, marshalFailed.because("the body is not a JSON object")
		}
	}
	settings["deployment_status"], settings["processing_status"] = deployment, processing
	if failure := c.change(f, settings); failure != nil {
		return nil, failure
	}
	return doneWith("Function: %s is %s", c.at, doing), nil
}

// change merges settings, the state among them.
func (c *eventingCall) change(f *function, settings map[string]any) *eventingFailure {
	if c.newRules {
		for _, name := range stateSettings {
			if _, ok := settings[name]; !ok {
				settings[name] = f.flag(name)
			}
		}
	}
	if failure := c.checkSettings(settings); failure != nil {
		return failure
	}
	next := f.clone()
	maps.Copy(next.Settings, settings)
	switch {
	case next.flag("processing_status") && !next.flag("deployment_status"):
		return c.invalid("a function that processes is deployed")
	case next.size() > maxFunction:
		return appCodeSize.because("Function: %s has more than %d bytes", c.at, maxFunction)
	}
	if failure := c.mayMove(f, next); failure != nil {
		return failure
	}
	c.moveTo(f, next.Settings)
	return nil
}

// mayMove refuses a change of the state or of settings that the state does not allow.
func (c *eventingCall) mayMove(f, next *function) *eventingFailure {
	now, to := c.composite(f), next.target()
	switch {
	case c.newRules && (f.moving || f.target() == undeployed && to == paused):
		return invalidRequest.because("Function: %s cannot change from %s to %s", c.at, now, stateNames[to])
	case now == "deploying" && to != undeployed:
		return appNotBootstrapped.because("Function: %s is still deploying", c.at)
	case f.target() == undeployed && to == paused:
		return appNotBootstrapped.because("Function: %s processes no mutations", c.at)
	}
	if f.target() == deployed && to != undeployed {
		for name, v := range next.Settings {
			if !dynamicSettings[name] && string(toJSON(v)) != string(toJSON(f.Settings[name])) {
				return c.invalid("%s changes only while the function is paused or undeployed", name)
			}
		}
	}
	if to == deployed && f.target() != deployed {
		return c.keyspaces(next)
	}
	return nil
}

// functionStatus is the state of a function over all nodes.
type functionStatus struct {
	Composite     string        `json:"composite_status"`
	Name          string        `json:"name"`
	Scope         functionScope `json:"function_scope"`
	Bootstrapping int           `json:"num_bootstrapping_nodes"`
	Deployed      int           `json:"num_deployed_nodes"`
	Deployment    bool          `json:"deployment_status"`
	Processing    bool          `json:"processing_status"`
	Redeploy      bool          `json:"redeploy_required"`
}

// statusOf shows the state, which ends a transition.
func (c *eventingCall) statusOf(f *function) functionStatus {
	out := functionStatus{
		Composite: c.composite(f), Name: f.Name, Scope: f.Scope,
		Deployment: f.flag("deployment_status"), Processing: f.flag("processing_status"),
	}
	switch nodes := c.s.host.Running(Eventing); out.Composite {
	case "deploying":
		out.Bootstrapping = nodes
	case "undeployed":
	default:
		out.Deployed = nodes
	}
	f.moving = false
	return out
}

func (c *eventingCall) statuses() (any, *eventingFailure) {
	apps := []functionStatus{}
	for _, f := range c.visible() {
		apps = append(apps, c.statusOf(f))
	}
	return map[string]any{"apps": apps, "num_eventing_nodes": c.s.host.Running(Eventing)}, nil
}

func (c *eventingCall) status() (any, *eventingFailure) {
	f, failure := c.existing()
	if failure != nil {
		return nil, failure
	}
	return map[string]any{"app": c.statusOf(f), "num_eventing_nodes": c.s.host.Running(Eventing)}, nil
}

// refuseEventing is the answer to wrong credentials.
func refuseEventing(status int) Answer {
	if status == http.StatusForbidden {
		return eventingForbidden.because("the credentials may not act for another").answer()
	}
	return unauthenticated.because("the credentials are wrong").answer()
}
