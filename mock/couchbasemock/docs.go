package couchbasemock

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/couchcore/couchcore/mock"
)

// maxDocs is how many bytes the documents of a ZIP file may have together.
const maxDocs = 256 << 20

// ReadDocs reads a ZIP file as CouchbaseMock does: a file in a folder docs is a document whose key is the file's name
// without .json, one in a folder design_docs a design document. They are for the bucket "default".
func ReadDocs(r io.ReaderAt, size int64) (mock.Fixtures, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return mock.Fixtures{}, fmt.Errorf("couchbasemock: documents: %w", err)
	}
	b := mock.BucketFixture{Documents: map[string]any{}, Designs: map[string]json.RawMessage{}}
	left := int64(maxDocs)
	for _, f := range z.File {
		folder := path.Base(path.Dir(f.Name))
		if f.FileInfo().IsDir() || folder != "docs" && folder != "design_docs" {
			continue
		}
		text, err := readPart(f, left)
		if err != nil {
			return mock.Fixtures{}, fmt.Errorf("couchbasemock: documents: %s: %w", f.Name, err)
		}
		left -= int64(len(text))
		key := strings.TrimSuffix(path.Base(f.Name), ".json")
		if folder == "design_docs" {
			b.Designs[key] = text
			continue
		}
		b.Documents[key] = mock.Doc{Value: text, Flags: mock.FlagsJSON}
	}
	return mock.Fixtures{Buckets: map[string]mock.BucketFixture{mock.DefaultBucket: b}}, nil
}

func readPart(f *zip.File, left int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, left+1))
	if closed := r.Close(); err == nil {
		err = closed
	}
	if err == nil && int64(len(text)) > left {
		err = fmt.Errorf("the documents have more than %d bytes", maxDocs)
	}
	return text, err
}
