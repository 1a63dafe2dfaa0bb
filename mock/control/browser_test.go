package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// browser is a headless Chromium with one page, driven by the DevTools protocol over a pair of pipes: JSON objects with
// a zero byte behind each.
type browser struct {
	t       *testing.T
	out     io.Writer
	in      *bufio.Reader
	session string
	id      int
}

// startBrowser starts Chromium for as long as the test runs. Nothing but loopback has an address in it.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := testkit.Program(t, "chromium", "chromium")
	fromUs, out, err := os.Pipe()
	require.NoError(t, err)
	in, toUs, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, path, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-sandbox",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server",
		"--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	require.NoError(t, fromUs.Close())
	require.NoError(t, toUs.Close())
	b := &browser{t: t, out: out, in: bufio.NewReaderSize(in, 1<<20)}
	t.Cleanup(func() {
		require.NoError(t, out.Close()) // it ends with that
		require.NoError(t, in.Close())
		late := time.AfterFunc(10*time.Second, cancel)
		_ = cmd.Wait() // how does not matter
		late.Stop()
		cancel()
	})
	var target struct{ TargetID string }
	b.do("Target.createTarget", body{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", body{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.do("Page.enable", nil, nil)
	b.do("Emulation.setDeviceMetricsOverride",
		body{"width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// do sends a command and decodes its result.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	b.id++
	m := body{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	require.NoError(b.t, err)
	_, err = b.out.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		text, err := b.in.ReadBytes(0)
		require.NoError(b.t, err, method)
		var answer struct {
			ID     int
			Error  json.RawMessage
			Result json.RawMessage
		}
		require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &answer))
		if answer.ID != b.id { // an event
			continue
		}
		require.Empty(b.t, string(answer.Error), method)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(answer.Result, result))
		}
		return
	}
}

// eval gives the value of a JavaScript expression, and waits for it when it is a promise.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.do("Runtime.evaluate", body{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "allowUnsafeEvalBlockedByCSP": false,
	}, &out)
	require.Empty(b.t, string(out.ExceptionDetails), expression)
	return out.Result.Value
}

// until waits until a JavaScript expression is true, for half a minute.
func (b *browser) until(expression string) {
	b.t.Helper()
	for range 300 {
		if b.eval(expression) == true {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("%s is not true; the page has the text:\n%v", expression, b.eval("document.body.innerText"))
}

// picture writes what the page looks like to a file.
func (b *browser) picture(file string) {
	b.t.Helper()
	var out struct{ Data string }
	b.do("Page.captureScreenshot", body{"format": "png"}, &out)
	png, err := base64.StdEncoding.DecodeString(out.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(file, png, 0o600))
}
