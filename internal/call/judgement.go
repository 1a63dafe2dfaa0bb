package call

import (
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Judgement is what the client makes of an answer. Err is nil for a success. Entry is what the error map of the node
// that answered says of the status, if it was asked and has something.
type Judgement struct {
	Disposition
	Hint  retry.Hint
	Err   *Error
	Entry errormap.Entry
}

// Judge says what becomes of the answer to an attempt that was claimed by State.Answered: it is the one function by
// which the dispatcher and the command's explain decide. It changes nothing but the units that the call has used, and
// the State, which learns from it that nothing was applied. m is the error map of the node that answered, nil for none.
func (c *Call) Judge(p *memd.Packet, m *errormap.Map) Judgement {
	j := c.judge(p, m)
	if j.Err != nil && !j.Hint.InDoubt {
		c.State.NotApplied()
	}
	return j
}

func (c *Call) judge(p *memd.Packet, m *errormap.Map) Judgement {
	j := Judgement{
		Disposition: Classify(c.Req.Opcode, p.Status, c.Req.CAS != 0), Hint: retry.Hint{Code: uint32(p.Status)},
	}
	if j.Class == ClassSuccess {
		return j
	}
	j.Err = c.StatusError(p, j.Disposition)
	j.Hint.InDoubt = j.Err.InDoubt
	st := p.Status
	asked := j.Class == ClassAskMap || !st.Known() || st == memd.StatusInternal || st == memd.StatusNotInitialized
	if m == nil || !asked && j.Class != ClassRetry {
		return j
	}
	entry, known := m.Lookup(uint16(st))
	if known && asked {
		j.Entry, j.Err.Description = entry, entry.Desc
		if !st.Known() {
			j.Err.Name = entry.Name
		}
		if j.Disposition = j.WithMap(entry); j.NotApplied {
			j.Err.InDoubt, j.Hint.InDoubt = false, false // it may be sent again, so nothing was applied
		}
	}
	j.Hint.Overload = known && entry.RateLimit()
	return j
}
