// Gocb is a program of gocb, Couchbase's Go SDK, that runs on couchcore without a change: docs/gocb.md says how.
//
//	go run . couchbase://127.0.0.1 Administrator password
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/couchbase/gocb/v2"
)

type airline struct {
	Name    string `json:"name"`
	Country string `json:"country"`
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: gocb CONNECTION-STRING USER PASSWORD")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(connString, user, password string) (err error) {
	cluster, err := gocb.Connect(connString, gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{Username: user, Password: password},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close(nil)) }()
	bucket := cluster.Bucket("default")
	if err := bucket.WaitUntilReady(5*time.Second, nil); err != nil {
		return err
	}
	documents := bucket.DefaultCollection()
	if _, err := documents.Upsert("airline_10", airline{"40-Mile Air", "United States"}, nil); err != nil {
		return err
	}
	result, err := documents.Get("airline_10", nil)
	if err != nil {
		return err
	}
	var a airline
	if err := result.Content(&a); err != nil {
		return err
	}
	fmt.Println("read", a.Name)
	_, err = cluster.Transactions().Run(func(t *gocb.TransactionAttemptContext) error {
		doc, err := t.Get(documents, "airline_10")
		if err != nil {
			return err
		}
		_, err = t.Replace(doc, airline{"40-Mile Air", "Canada"})
		return err
	}, nil)
	if err != nil {
		return err
	}
	rows, err := cluster.Query("SELECT d.country FROM `default` d USE KEYS 'airline_10'", nil)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := rows.Row(&a); err != nil {
			return err
		}
		fmt.Println("now in", a.Country)
	}
	return rows.Err()
}
