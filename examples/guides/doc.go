// Package guides holds the programs of docs/getting-started.md, docs/operations.md and docs/faq.md. Its tests run them.
package guides
