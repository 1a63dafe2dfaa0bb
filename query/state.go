package query

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/couchcore/couchcore/cberr"
)

// MutationState is a set of mutations that a statement must see: for Request.ScanVectors with AtPlus. Its JSON form is
// the one that SDKs exchange. The zero value is empty; it is for one goroutine.
type MutationState struct {
	buckets map[string]map[uint16]vector
}

type vector struct{ seqno, uuid uint64 }

// Add adds what a mutation's token says. Of one vbucket the later mutation stays.
func (s *MutationState) Add(bucket string, vbucket uint16, uuid, seqno uint64) {
	if s.buckets == nil {
		s.buckets = map[string]map[uint16]vector{}
	}
	b := s.buckets[bucket]
	if b == nil {
		b = map[uint16]vector{}
		s.buckets[bucket] = b
	}
	if v, ok := b[vbucket]; !ok || v.seqno < seqno {
		b[vbucket] = vector{seqno, uuid}
	}
}

// Vectors is the state as Request.ScanVectors wants it; nil when it is empty.
func (s *MutationState) Vectors() json.RawMessage {
	if len(s.buckets) == 0 {
		return nil
	}
	raw, _ := s.MarshalJSON() // numbers and texts cannot fail
	return raw
}

// ForSearch is what the state has of one bucket, as search.Request.ConsistentWith wants it: sequence numbers by
// "vbucket/uuid"; nil when it has nothing. The map is the caller's.
func (s *MutationState) ForSearch(bucket string) map[string]uint64 {
	var out map[string]uint64
	for vb, v := range s.buckets[bucket] {
		if out == nil {
			out = map[string]uint64{}
		}
		out[strconv.Itoa(int(vb))+"/"+strconv.FormatUint(v.uuid, 10)] = v.seqno
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (s *MutationState) MarshalJSON() ([]byte, error) {
	out := map[string]map[string][2]any{}
	for bucket, vs := range s.buckets {
		m := map[string][2]any{}
		for vb, v := range vs {
			m[strconv.Itoa(int(vb))] = [2]any{v.seqno, strconv.FormatUint(v.uuid, 10)}
		}
		out[bucket] = m
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler. It adds to what is there.
func (s *MutationState) UnmarshalJSON(raw []byte) error {
	var in map[string]map[string][]json.RawMessage
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("query: %w: %w", cberr.InvalidArgument, err)
	}
	for bucket, vs := range in {
		for vb, pair := range vs {
			n, err := strconv.ParseUint(vb, 10, 16)
			if err != nil || len(pair) != 2 {
				return fmt.Errorf("query: %w: %q of bucket %q is not a vbucket with a sequence number and a uuid",
					cberr.InvalidArgument, vb, bucket)
			}
			var v vector
			var uuid string
			if err = json.Unmarshal(pair[0], &v.seqno); err == nil {
				err = json.Unmarshal(pair[1], &uuid)
			}
			if err == nil {
				v.uuid, err = strconv.ParseUint(uuid, 10, 64)
			}
			if err != nil {
				return fmt.Errorf("query: %w: vbucket %q of bucket %q: %w", cberr.InvalidArgument, vb, bucket, err)
			}
			s.Add(bucket, uint16(n), v.uuid, v.seqno)
		}
	}
	return nil
}
