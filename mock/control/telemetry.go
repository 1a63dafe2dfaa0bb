package control

import (
	"fmt"
	"math"
	"strconv"

	"github.com/couchcore/couchcore/mock"
)

// telemetryRoutes are about application telemetry, what clients tell of their attempts.
func telemetryRoutes() []route {
	return []route{
		of(get, "/v1/telemetry", "The clients that give reports, and the sums of what they have told.", telemetryState),
		of(put, "/v1/telemetry", "Switches application telemetry on or off.", switchTelemetry),
		of(post, "/v1/telemetry/ask", "Asks every client for a report now.", askTelemetry),
		of(del, "/v1/telemetry", "Forgets what was told.", clearTelemetry),
	}
}

// TelemetryClient is a client that is connected to give reports.
type TelemetryClient struct {
	Node  int    `json:"node" doc:"that it is connected to"`
	User  string `json:"user"`
	Agent string `json:"agent"`
	TLS   bool   `json:"tls,omitempty"`
}

// TelemetryMetric is the sum of one metric.
type TelemetryMetric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value" doc:"a number of 64 bits"`
}

// Telemetry is what clients have told.
type Telemetry struct {
	Clients []TelemetryClient `json:"clients"`
	Metrics []TelemetryMetric `json:"metrics" doc:"the sums of all reports"`
	Invalid []string          `json:"invalid,omitempty" doc:"lines that a server refuses"`
}

func telemetryState(c *call, _ *nothing) (Telemetry, error) {
	out := Telemetry{Clients: []TelemetryClient{}, Metrics: []TelemetryMetric{}}
	for _, k := range c.x.c.TelemetryClients() {
		out.Clients = append(out.Clients, describeTelemetry(&k))
	}
	sums, invalid := c.x.c.Telemetry()
	for _, m := range sums {
		out.Metrics = append(out.Metrics, TelemetryMetric{m.Name, m.Labels, strconv.FormatInt(m.Value, 10)})
	}
	out.Invalid = invalid
	return out, nil
}

func describeTelemetry(k *mock.TelemetryClient) TelemetryClient {
	return TelemetryClient{Node: k.Node, User: k.User, Agent: k.Agent, TLS: k.TLS}
}

// TelemetrySwitch says whether application telemetry is on.
type TelemetrySwitch struct {
	Enabled bool `json:"enabled"`
}

func switchTelemetry(c *call, in *TelemetrySwitch) (nothing, error) {
	c.x.c.SetAppTelemetry(in.Enabled)
	return nothing{}, nil
}

// TelemetryCommand is what to ask.
type TelemetryCommand struct {
	Command int `json:"command,omitempty" doc:"the command's byte; absent for the one that asks for a report"`
}

// TelemetryAnswer is what a client has answered.
type TelemetryAnswer struct {
	Client TelemetryClient `json:"client"`
	Status int             `json:"status" doc:"0 is success, 1 an unknown command"`
	Text   string          `json:"text,omitempty" doc:"the report"`
	Error  string          `json:"error,omitempty" doc:"why there is no answer; the client was dropped"`
}

// TelemetryAnswers are the answers of all clients.
type TelemetryAnswers struct {
	Items []TelemetryAnswer `json:"items"`
}

func askTelemetry(c *call, in *TelemetryCommand) (TelemetryAnswers, error) {
	if in.Command < 0 || in.Command > math.MaxUint8 {
		return TelemetryAnswers{}, invalid("command", "%d is not a byte", in.Command)
	}
	out := TelemetryAnswers{Items: []TelemetryAnswer{}}
	for _, a := range c.x.c.AskTelemetry(c.r.Context(), byte(in.Command)) {
		item := TelemetryAnswer{Client: describeTelemetry(&a.TelemetryClient), Status: int(a.Status), Text: a.Text}
		if a.Err != nil {
			item.Error = fmt.Sprint(a.Err)
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func clearTelemetry(c *call, _ *nothing) (nothing, error) {
	c.x.c.ClearTelemetry()
	return nothing{}, nil
}
