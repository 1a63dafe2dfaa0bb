package minisdk

import (
	"encoding/json"
	"fmt"

	"github.com/couchcore/couchcore/kv"
)

// Transcoder makes documents of values and values of documents. The flags say of which format a document is; all SDKs
// write them alike, so that one reads what another has written.
type Transcoder interface {
	Encode(v any) (doc []byte, flags uint32, err error)
	Decode(doc []byte, flags uint32, v any) error
}

// JSON is a Transcoder for every value that encoding/json takes.
type JSON struct{}

// Encode implements Transcoder.
func (JSON) Encode(v any) ([]byte, uint32, error) {
	doc, err := json.Marshal(v)
	return doc, kv.FormatJSON.Flags(), err
}

// Decode implements Transcoder.
func (JSON) Decode(doc []byte, flags uint32, v any) error {
	if f := kv.FormatOf(flags); f != kv.FormatJSON && f != kv.FormatNone {
		return fmt.Errorf("the document is %v, and this transcoder reads JSON", f)
	}
	return json.Unmarshal(doc, v)
}

// Binary is a Transcoder for []byte and *[]byte: documents as they are.
type Binary struct{}

// Encode implements Transcoder.
func (Binary) Encode(v any) ([]byte, uint32, error) {
	doc, ok := v.([]byte)
	if !ok {
		return nil, 0, fmt.Errorf("%T is not []byte", v)
	}
	return doc, kv.FormatBinary.Flags(), nil
}

// Decode implements Transcoder.
func (Binary) Decode(doc []byte, _ uint32, v any) error {
	out, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not *[]byte", v)
	}
	*out = doc
	return nil
}
