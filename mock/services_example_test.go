package mock_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/couchcore/couchcore/mock"
)

func ExampleCluster_ScriptQuery() {
	c, err := mock.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// The first execution meets a busy service, the second one has two rows and a connection that breaks behind them.
	s := c.ScriptQuery("FROM airports",
		mock.Answer{
			Errors: []mock.ServiceError{{Code: 1080, Message: "Timeout 1s exceeded", Retry: true}},
			Status: 503,
		},
		mock.Answer{Rows: []string{`{"id":"CDG"}`, `{"id":"TXL"}`, `{"id":"LHR"}`}, CutRows: 2})
	for range 2 {
		ask, err := http.NewRequest(http.MethodPost,
			"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service",
			strings.NewReader(`{"statement":"SELECT id FROM airports"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		ask.SetBasicAuth(mock.DefaultUser, mock.DefaultPassword)
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Println(answer.StatusCode, strings.Count(string(body), `"id"`), err)
	}
	fmt.Println(s.Fired())
	// Output:
	// 503 0 <nil>
	// 200 2 unexpected EOF
	// 2
}
