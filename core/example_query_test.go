package core_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

func ExampleCluster_Query() {
	ctx := context.Background()
	server, err := mock.New(mock.Virtual())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	server.ScriptQuery("SELECT", mock.Answer{Rows: []string{`{"name":"Ada"}`, `{"name":"Grace"}`}})
	server.ScriptQuery("SELEKT", mock.Answer{Errors: []mock.ServiceError{{Code: 3000, Message: "syntax error"}}})

	cfg, err := core.ParseConnString(server.ConnString())
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), server.Dial
	c, err := core.Open(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	rows, err := c.Query(ctx, &query.Request{Statement: "SELECT name FROM people", Readonly: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for rows.Next() {
		var person struct{ Name string }
		if err := rows.Scan(&person); err != nil {
			fmt.Println(err)
		}
		fmt.Println(person.Name)
	}
	if err := rows.Err(); err != nil {
		fmt.Println(err)
	}
	meta, _ := rows.Meta()
	fmt.Println(meta.Status, meta.Metrics.Results)

	_, err = c.Query(ctx, &query.Request{Statement: "SELEKT name FROM people"})
	fmt.Println(errors.Is(err, cberr.ParsingFailure))
	// Output:
	// Ada
	// Grace
	// success 2
	// true
}
