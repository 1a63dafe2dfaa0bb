package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

// picturesVariable names a folder where the tests of the page leave pictures of it.
const picturesVariable = "COUCHCORE_PICTURES"

// hostile would run if it were markup.
const hostile = `<script>window.ran=1</script><img src=x onerror="window.ran=1">`

// openConsole starts a cluster and a browser that shows its console.
func openConsole(t *testing.T, opts ...mock.Option) (*controlled, *browser) {
	t.Helper()
	testkit.RequireInterop(t)
	c := startWith(t, control.Options{Console: true}, opts...)
	b := startBrowser(t)
	b.do("Page.addScriptToEvaluateOnNewDocument", body{
		"source": "window.wrong = []; for (const kind of ['error', 'unhandledrejection', 'securitypolicyviolation'])" +
			" window.addEventListener(kind, e => wrong.push(kind + ' ' + (e.message || e.reason || e.blockedURI)))",
	}, nil)
	b.do("Page.navigate", body{"url": c.url + "/console/"}, nil)
	b.until("document.getElementById('live')?.textContent === 'live'")
	return c, b
}

// work lets a client read and write until the function that is returned is called.
func work(t *testing.T, b *core.Bucket) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
				key := fmt.Appendf(nil, "order::%d", (i*7+w*31)%200)
				if i%3 == 0 {
					_, _ = kv.Do(t.Context(), b, kv.Upsert{Key: key, Value: []byte(`{"total":7}`)}) // the page shows it
				} else {
					_, _ = kv.Do(t.Context(), b, kv.Get{Key: key}) // the same
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(over)
		wg.Wait()
	})
}

// What comes over the wire is text in the page, whatever it is.
func TestTextOfTheWireDoesNotRunInTheBrowser(t *testing.T) {
	c, page := openConsole(t, mock.Nodes(1), mock.VBuckets(4))
	b := c.client().Bucket("default")
	c.ok("POST", "/v1/injections", body{"match": body{"key": hostile, "times": 1}, "fault": body{"status": "ETMPFAIL"}})
	c.upsert(b, hostile, hostile)
	c.upsert(b, "\xff\xfe", "bytes")
	c.ok("POST", "/v1/operations", body{"client": hostile, "items": []body{{
		"service": hostile, "operation": hostile, "bucket": hostile, "collection": hostile, "key": hostile,
		"at": hostile, "error": hostile,
		"attempts": []body{{"node": hostile, "status": hostile, "error": hostile, "reason": hostile}},
	}}})
	page.until("$('requests').innerText.includes('onerror') && $('ops').innerText.includes('onerror')")
	page.until("$('injections').innerText.includes('onerror') && $('requests').innerText.includes('base64 //4=')")
	require.EqualValues(t, 1, page.eval("document.scripts.length"), "the page's own")
	require.EqualValues(t, 0, page.eval("document.images.length"))
	require.Equal(t, "undefined", page.eval("typeof window.ran"))
	require.Empty(t, page.eval("wrong"))
	require.Equal(t, "EvalError", page.eval("(() => { try { return Function('1')() } catch (e) "+
		"{ return e.name } })()"), "the policy lets no text become a program")
}

// The page shows a client at work, its buttons do what they say, and it fits: light and dark, wide and narrow.
func TestTheConsoleInABrowser(t *testing.T) {
	c, page := openConsole(t, mock.Nodes(3), mock.Replicas(1), mock.VBuckets(1024))
	b := c.client().Bucket("default")
	stop := work(t, b)
	defer stop()
	page.until("$('requests').rows.length > 20 && $('conns').innerText.includes('couchcore')")
	page.until("$('map').getAttribute('aria-label').startsWith('1024 vbuckets, node 0: 342,')")
	page.until(`document.querySelector('.figures').textContent.match(/[1-9]\d* req\/s · p50/) !== null`)

	click := func(label string) { page.eval(fmt.Sprintf("document.querySelector('[aria-label=%q]').click()", label)) }
	node := func(n int) string { return fmt.Sprintf("cards.get(%d)?.state.textContent", n) }
	click("Kill node 2")
	page.until(node(2) + " === 'active, down'")
	require.False(t, c.mock.Node(2).Up())
	click("Respawn node 2")
	page.until(node(2) + " === 'active, up'")
	click("Suspend node 1")
	page.until(node(1) + " === 'active, up, silent'")
	click("Resume node 1")
	page.until(node(1) + " === 'active, up'")
	page.eval("document.querySelector('[data-post=\"/v1/nodes\"]').click()")
	page.until(node(3) + " === 'added, up'")
	page.eval("document.querySelector('[data-post$=rebalance]').click()")
	page.until("$('map').getAttribute('aria-label').includes('node 3: 256')")
	click("Remove node 3")
	page.until(node(3) + " === 'out, up'")
	click("Let node 3 join again")
	page.until(node(3) + " === 'added, up'")
	click("Fail over node 3")
	page.until(node(3) + " === 'out, up'")
	page.eval("document.querySelector('[aria-label=\"Remove node 3\"]').disabled || fail(Error('enabled'))")

	require.Equal(t, "ok", page.eval("Promise.all(faults.map(([, fault]) => api('POST', '/v1/injections', "+
		"{match: {key: 'none'}, fault}))).then(() => 'ok')"), "the API takes all faults of the page")
	page.eval("document.querySelector('[data-post=\"/v1/reset\"]').click()")
	page.until("$('injections').childElementCount === 0")
	page.eval("$('fault').opcode.value = 'GETT'; $('fault').requestSubmit()")
	page.until("$('failure').innerText.includes('GETT')")
	page.eval("$('fault').opcode.value = 'GET'; $('fault').times.value = 0; $('fault').requestSubmit()")
	page.until("$('failure').hidden && $('requests').innerText.includes('status ETMPFAIL')")
	page.eval("$('latency').ms.value = 2; $('latency').requestSubmit()")
	page.until(node(0) + ".includes('2 ms late')")
	c.ok("POST", "/v1/operations", body{"client": "orders", "items": []body{
		{
			"operation": "get", "bucket": "default", "key": "order::17", "took_us": 3120, "attempts": []body{
				{"status": "ETMPFAIL", "reason": "KV_TEMPORARY_FAILURE"},
				{"status": "ETMPFAIL", "reason": "KV_TEMPORARY_FAILURE"},
				{},
			},
		},
		{"operation": "upsert", "bucket": "default", "key": "order::4", "took_us": 410, "attempts": []body{{}}},
	}})
	page.until("$('ops').innerText.includes('3: ETMPFAIL (KV_TEMPORARY_FAILURE) › ')")
	page.eval("$('retried').click()")
	c.ok("POST", "/v1/operations", body{"client": "orders", "items": []body{
		{"operation": "touch", "key": "order::5", "attempts": []body{{}}},
		{
			"operation": "remove", "bucket": "default", "key": "order::6", "took_us": 950,
			"attempts": []body{{"status": "KEY_ENOENT"}}, "error": "document not found",
		},
	}})
	page.until("$('ops').innerText.includes('document not found') && !$('ops').innerText.includes('touch')")
	require.Empty(t, page.eval("wrong"))
	click("End i18")
	c.ok("POST", "/v1/injections", body{
		"match": body{"key_pattern": "[37]$", "probability": 0.5}, "fault": body{"status": "ETMPFAIL"},
	})
	page.until("$('injections').innerText.includes('key pattern [37]$, probability 0.5')")
	time.Sleep(1500 * time.Millisecond) // for the pictures: figures of a whole second

	for _, size := range [][2]int{{1200, 800}, {700, 900}, {400, 800}} {
		for _, scheme := range []string{"light", "dark"} {
			page.do("Emulation.setDeviceMetricsOverride", body{
				"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": false,
			}, nil)
			page.do("Emulation.setEmulatedMedia", body{
				"features": []body{{"name": "prefers-color-scheme", "value": scheme}},
			}, nil)
			width := page.eval("document.documentElement.scrollWidth")
			require.LessOrEqual(t, width, float64(size[0]), "no scrolling aside")
			require.Equal(t, true, page.eval("[...document.querySelectorAll('button,input,select,canvas')].every(e => "+
				"e.getAttribute('aria-label') || e.innerText || e.closest('label'))"), "everything has a name")
			if dir := os.Getenv(picturesVariable); dir != "" {
				page.picture(filepath.Join(dir, fmt.Sprintf("console-%d-%s.png", size[0], scheme)))
			}
		}
	}
	stop()
}
