package couchbasemock_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
)

type controlReply struct {
	Status, Error string
	Payload       json.RawMessage
}

// control executes a command that must succeed and returns its payload.
func control(t *testing.T, x *couchbasemock.Control, command, payload string) string {
	t.Helper()
	r := controlAny(t, x, command, payload)
	require.Equal(t, "ok", r.Status, r.Error)
	return string(r.Payload)
}

func controlAny(t *testing.T, x *couchbasemock.Control, command, payload string) controlReply {
	t.Helper()
	var r controlReply
	require.NoError(t, json.Unmarshal(x.Run(command, []byte(payload)), &r))
	return r
}

func TestControlCommandsThatFail(t *testing.T) {
	c := mock.Start(t)
	x := attach(t, c)
	for _, row := range [][3]string{
		{"NOTHING", `{}`, "no such command"},
		{"FAILOVER", `{}`, "missing required field: idx"},
		{"FAILOVER", `{"idx":0,"bucket":"none"}`, "No such bucket: none"},
		{"FAILOVER", `{"idx":"x"}`, "idx is not an integer"},
		{"HICCUP", `{"msecs":1}`, "offset"},
		{"TRUNCATE", ``, "limit"},
		{"TIME_TRAVEL", `{"Offset":1.5}`, "Offset is not an integer"},
		{"OPFAIL", `{"code":4660,"count":1}`, "Invalid error code"},
		{"OPFAIL", `{"code":1}`, "count"},
		{"SET_CCCP", `{}`, "enabled"},
		{"SET_CCCP", `{"enabled":1}`, "neither"},
		{"GET_MCPORTS", `{"bucket":"none"}`, "No such bucket: none"},
		{"SET_COMPRESSION", `{"mode":"best"}`, "unknown compression mode"},
		{"SET_SASL_MECHANISMS", `{}`, "mechs"},
		{"PERSIST", `{"Key":"k","OnMaster":true}`, "OnReplicas"},
		{"PERSIST", `{"Key":"k","OnMaster":true,"OnReplicas":3}`, "3 replicas"},
		{"KEYINFO", `{}`, "Key"},
		{"KEYINFO", `{"Key":"k","Bucket":"none"}`, "No such bucket: none"},
		{"CHECK_RETRY_VERIFY", `{"idx":0,"opcode":0,"errcode":1}`, "no way to retry"},
		{"START_CMDLOG", `{"servers":[0]}`, "idx"},
		{"OPFAIL", `{"code":1,"count":1,"servers":["a"]}`, "servers"},
		{"OPFAIL", `[]`, "not an object"},
	} {
		r := controlAny(t, x, row[0], row[1])
		require.Equal(t, "fail", r.Status, row)
		require.Contains(t, r.Error, row[2], row)
	}
}

func TestControlOfRequests(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	x := attach(t, c)
	r := login(t, c, 0)
	r.set("k", "v")
	control(t, x, "OPFAIL", `{"code":134,"count":2,"servers":[0],"operation":0}`)
	require.Equal(t, memd.StatusTmpFail, r.call(getPacket("k")).Status)
	r.silent()
	require.Equal(t, memd.StatusTmpFail, r.call(getPacket("k")).Status)
	require.Equal(t, "v", r.body("k"))
	control(t, x, "opfail", `{"code":32752,"count":-1}`)
	for range 3 {
		require.EqualValues(t, 0x7ff0, r.call(getPacket("k")).Status)
	}
	control(t, x, "OPFAIL", `{"code":0,"count":-1,"servers":[0,1]}`)
	require.Equal(t, "v", r.body("k"), "the code of success ends it, whatever the count is")

	other := login(t, c, 1)
	control(t, x, "SET_CCCP", `{"enabled":false,"bucket":"default","servers":[1]}`)
	require.Equal(t, memd.StatusNotSupported, other.call(memd.Packet{Opcode: memd.OpGetClusterConfig}).Status)
	require.Empty(t, other.call(getPacket("k")).Value)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpGetClusterConfig}).Status)
	control(t, x, "SET_CCCP", `{"enabled":true}`)
	require.NotEmpty(t, other.call(getPacket("k")).Value)
	control(t, x, "SET_ENHANCED_ERRORS", `{"enabled":false}`)
	bad := memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), CAS: 1}
	require.Empty(t, r.call(bad).Value)
	control(t, x, "SET_ENHANCED_ERRORS", `{"enabled":true}`)
	require.NotEmpty(t, r.call(bad).Value)

	control(t, x, "SET_COMPRESSION", `{"mode":"disabled"}`)
	granted, err := memd.ParseFeatures(dial(t, c, 0).call(memd.Packet{
		Opcode: memd.OpHello,
		Value:  memd.AppendFeatures(nil, memd.FeatureSnappy),
	}).Value)
	require.NoError(t, err)
	require.Zero(t, granted)
	control(t, x, "SET_COMPRESSION", `{"mode":"Active"}`)
	snappy := login(t, c, 0, memd.FeatureSnappy)
	r.set("long", strings.Repeat("a", 200))
	require.NotZero(t, snappy.call(getPacket("long")).Datatype&memd.DatatypeSnappy)

	control(t, x, "SET_SASL_MECHANISMS", `{"mechs":["plain"],"servers":[0]}`)
	require.Equal(t, "PLAIN", string(dial(t, c, 0).call(memd.Packet{Opcode: memd.OpSASLListMechs}).Value))
	require.Contains(t, string(dial(t, c, 1).call(memd.Packet{Opcode: memd.OpSASLListMechs}).Value), "SCRAM")

	before := r.set("k", "w").Extras
	control(t, x, "REGEN_VBCOORDS", ``)
	require.NotEqual(t, before[:8], r.set("k", "w").Extras[:8])
	require.JSONEq(t, fmt.Sprintf("[%s,%s]", port(c.Node(0).Addr()), port(c.Node(1).Addr())),
		control(t, x, "GET_MCPORTS", ""))
	var info map[string][]string
	require.NoError(t, json.Unmarshal([]byte(control(t, x, "MOCKINFO", "")), &info))
	require.Contains(t, info["MEMCACHED"], "GET")
	require.Contains(t, info["MOCK"], "MOCKINFO")
	require.Contains(t, control(t, x, "help", ""), "start_retry_verify")
	control(t, x, "TRUNCATE", `{"limit":3}`)
	r.send(getPacket("k"))
	_, err = io.ReadFull(r.nc, make([]byte, 3))
	require.NoError(t, err)
	control(t, x, "TRUNCATE", `{"limit":0}`)
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

func nodesInMap(t *testing.T, c *mock.Cluster) int {
	t.Helper()
	var config struct {
		Nodes []any `json:"nodes"`
	}
	require.NoError(t, json.Unmarshal(c.ConfigJSON("default"), &config))
	return len(config.Nodes)
}

func TestControlOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 4))
		x := attach(t, c)
		r := login(t, c, 0)
		r.set("k", "v")
		control(t, x, "FAILOVER", `{"idx":0}`)
		require.Equal(t, 1, nodesInMap(t, c))
		r.send(getPacket("k"))
		require.NoError(t, r.nc.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := r.read()
		require.Error(t, err, "the node is silent")
		control(t, x, "RESPAWN", `{"idx":0}`)
		require.Equal(t, 2, nodesInMap(t, c))
		r = login(t, c, 0)
		r.silent()
		control(t, x, "FAILOVER", `{"idx":9}`)

		control(t, x, "HICCUP", `{"msecs":5000,"offset":10}`)
		begin := time.Now()
		r.silent()
		require.Equal(t, 5*time.Second, time.Since(begin))
		control(t, x, "HICCUP", `{"msecs":5000,"offset":0}`)
		r.silent()

		require.Equal(t, memd.StatusSuccess, r.call(setPacket("e", "v", 100)).Status)
		control(t, x, "TIME_TRAVEL", `{"Offset":100}`)
		require.Equal(t, "v", r.body("e"))
		control(t, x, "TIME_TRAVEL", `{"Offset":1}`)
		require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("e")).Status)
		control(t, x, "TIME_TRAVEL", `{"Offset":-50}`)
		require.Equal(t, "v", r.body("e"))
	})
}

func TestControlOfKeys(t *testing.T) {
	c := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 1))
	x := attach(t, c)
	r := login(t, c, 0)
	type copyInfo struct {
		Conf        struct{ Index, Type any }
		Cache, Disk map[string]any
	}
	info := func() (out []*copyInfo) {
		require.NoError(t, json.Unmarshal([]byte(control(t, x, "KEYINFO", `{"Key":"k"}`)), &out))
		return out
	}
	require.Empty(t, info()[0].Cache)
	set := r.set("k", "v")
	got := info()
	require.Len(t, got, 3)
	require.Equal(t, "master", got[0].Conf.Type)
	for _, n := range got {
		require.Equal(t, "v", n.Cache["Value"])
		require.Equal(t, n.Cache, n.Disk)
	}
	observed := func(node int) byte {
		p := login(t, c, node).call(memd.Packet{Opcode: memd.OpObserve, Value: []byte{0, 0, 0, 2, 0, 'k'}})
		return p.Value[6]
	}
	control(t, x, "UNPERSIST", `{"Key":"k","OnMaster":true,"OnReplicas":[1]}`)
	require.Empty(t, info()[0].Disk)
	require.Equal(t, byte(0), observed(0))
	second := 0
	for i, n := range info() {
		if n.Conf.Index == 2.0 {
			second = i
		}
	}
	require.Empty(t, info()[second].Disk)
	control(t, x, "PERSIST", `{"Key":"k","OnMaster":true,"OnReplicas":0}`)
	require.Equal(t, byte(1), observed(0))
	control(t, x, "PURGE", `{"Key":"k","OnMaster":false,"OnReplicas":2}`)
	require.Equal(t, byte(0x80), observed(second))
	require.Empty(t, info()[second].Cache)
	control(t, x, "CACHE", `{"Key":"k","OnMaster":false,"OnReplicas":[1]}`)
	require.Equal(t, "v", info()[second].Cache["Value"])
	require.Equal(t, byte(0), observed(second))
	control(t, x, "ENDURE", `{"Key":"k","OnMaster":true,"OnReplicas":2,"CAS":77,"Value":"new"}`)
	for _, n := range info() {
		require.Equal(t, map[string]any{"Value": "new", "CAS": 77.0, "Snappy": false}, n.Disk)
	}
	require.NotEqual(t, set.CAS, r.call(getPacket("k")).CAS)
	control(t, x, "UNCACHE", `{"Key":"k","OnMaster":true,"OnReplicas":0}`)
	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("k")).Status)
	r.set("k", "again")
	require.Equal(t, "again", info()[0].Disk["Value"], "a write ends it")
}

func TestControlLogsAndRetryVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Bucket("default", 1))
		x := attach(t, c)
		r := login(t, c, 0)
		control(t, x, "START_CMDLOG", `{"idx":0}`)
		r.silent()
		var log []struct {
			Opcode int
			At     int64 `json:"ms_timestamp"`
		}
		require.NoError(t, json.Unmarshal([]byte(control(t, x, "GET_CMDLOG", `{"idx":0}`)), &log))
		require.Len(t, log, 1)
		require.EqualValues(t, memd.OpNoop, log[0].Opcode)
		require.Equal(t, time.Now().UnixMilli(), log[0].At)
		control(t, x, "STOP_CMDLOG", `{"idx":0}`)
		require.Equal(t, "[]", control(t, x, "GET_CMDLOG", `{"idx":0}`))

		try := func(code int, gaps ...time.Duration) controlReply {
			control(t, x, "OPFAIL", fmt.Sprintf(`{"code":%d,"count":100,"servers":[0]}`, code))
			control(t, x, "START_RETRY_VERIFY", `{"idx":0}`)
			r.call(getPacket("k"))
			for _, g := range gaps {
				time.Sleep(g * time.Millisecond)
				r.call(getPacket("k"))
			}
			control(t, x, "OPFAIL", `{"code":0,"count":0}`)
			return controlAny(t, x, "CHECK_RETRY_VERIFY", fmt.Sprintf(`{"idx":0,"opcode":0,"errcode":%d,"fuzz_ms":1}`, code))
		}
		require.Contains(t, try(0x7ff1).Error, "not retried")
		require.Contains(t, try(0x7ff1, 20).Error, "first retry")
		require.Equal(t, "ok", try(0x7ff1, 50, 2, 4, 6, 8).Status)
		require.Contains(t, try(0x7ff1, 50, 2, 9).Error, "retry 3")
		require.Equal(t, "ok", try(0x7ff2, 60, 2, 4, 8, 16, 32, 64, 128, 200).Status)
		constant := []time.Duration{50}
		for range 44 {
			constant = append(constant, 10)
		}
		require.Equal(t, "ok", try(0x7ff0, constant...).Status)
		require.Contains(t, try(0x7ff0, constant[:10]...).Error, "last retry")
	})
}

func TestControlOverAConnection(t *testing.T) {
	c := mock.Start(t)
	x := attach(t, c)
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- x.Serve(far) }()
	require.NoError(t, near.SetDeadline(time.Now().Add(patience)))
	br := bufio.NewReader(near)
	number, err := br.ReadString(0)
	require.NoError(t, err)
	require.Equal(t, port(c.Node(0).ManagementAddr())+"\x00", number)
	for line, want := range map[string]string{
		`{"command":"get_mcports","payload":{"bucket":"default"}}`: `{"payload":[` + port(c.Node(0).Addr()) + `],"status":"ok"}`,
		`{"command":"TIME TRAVEL","payload":{"Offset":0}}`:         `{"payload":{},"status":"ok"}`,
		`{"payload":{}}`: `{ "status" : "fail", "error" : "Failed to parse input" }`,
		`nonsense`:       `{ "status" : "fail", "error" : "Failed to parse input" }`,
	} {
		_, err = io.WriteString(near, line+"\n")
		require.NoError(t, err)
		got, err := br.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want+"\n", got)
	}
	near.Close()
	require.NoError(t, <-ended)
	near, far = net.Pipe()
	defer near.Close()
	go func() { ended <- x.Serve(far) }()
	_, err = near.Read(make([]byte, 16))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Error(t, <-ended)
	require.Error(t, x.Serve(far))
}

func TestControlOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	attach(t, c)
	base := "http://" + c.Node(1).ManagementAddr() + "/mock/"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	do := func(method, url, kind, body string, header ...string) (int, string, string) {
		rq, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		rq.Header.Set("Content-Type", kind)
		if len(header) > 0 {
			rq.Header.Set(header[0], header[1])
		}
		rs, err := client.Do(rq)
		require.NoError(t, err)
		defer rs.Body.Close()
		b, err := io.ReadAll(rs.Body)
		require.NoError(t, err)
		return rs.StatusCode, rs.Header.Get("Content-Type"), string(b)
	}
	const form = "application/x-www-form-urlencoded"
	ports := fmt.Sprintf(`{"payload":[%s,%s],"status":"ok"}`, port(c.Node(0).Addr()), port(c.Node(1).Addr()))
	for _, row := range [][4]string{
		{"GET", "get_mcports?bucket=default", "", ""},
		{"GET", "get_mcports?bucket=%22default%22", "", ""},
		{"GET", "get_mcports", "", ""},
		{"POST", "get_mcports", form, "bucket=default"},
		{"POST", "GET_MCPORTS", "application/json", `{"bucket":"default"}`},
	} {
		code, kind, body := do(row[0], base+row[1], row[2], row[3])
		require.Equal(t, 200, code, row)
		require.Equal(t, "application/json", kind)
		require.Equal(t, ports, body, row)
	}
	_, _, body := do("GET", base+"opfail?code=1&count=2&servers=[0,1]", "", "")
	require.Contains(t, body, `"ok"`)
	_, _, body = do("POST", base+"opfail", "application/json", "[")
	require.Contains(t, body, `"fail"`)
	code, kind, body := do("GET", base+"help", "", "")
	require.Equal(t, []any{200, "text/plain"}, []any{code, kind})
	require.Contains(t, body, `"failover"`)
	code, _, help := do("GET", base+"nothing/here", "", "")
	require.Equal(t, 404, code)
	require.Equal(t, body, help)
	code, _, _ = do("GET", base+"failover?idx=0", "", "", "Origin", "http://evil.example")
	require.Equal(t, 403, code)
	code, _, _ = do("GET", "http://"+c.Node(1).ManagementAddr()+"/pools", "", "")
	require.Equal(t, 401, code, "everything else is as it was")
	without := mock.Start(t)
	code, _, _ = do("GET", "http://"+without.Node(0).ManagementAddr()+"/mock/help", "", "")
	require.NotEqual(t, 200, code)
}
