package sim

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Answers that are odd, and servers that are.

// framed puts framing extras into an encoded answer, behind those that it has.
func framed(frames []byte) mock.Fault {
	return mock.Corrupt(func(b []byte) []byte {
		if len(b) < header || int(b[2])+len(frames) > 255 {
			return b
		}
		had := 0
		switch memd.Magic(b[0]) {
		case memd.MagicRes:
			b[0], b[2] = byte(memd.MagicResExt), 0 // the key's length has one byte then; answers' keys are short
		case memd.MagicResExt:
			had = int(b[2])
		default:
			return b
		}
		b[2] += byte(len(frames))
		binary.BigEndian.PutUint32(b[8:], binary.BigEndian.Uint32(b[8:])+uint32(len(frames)))
		return slices.Insert(b, header+had, frames...)
	})
}

// datatyped changes the answers to reads that have found something.
func datatyped(f func(rep *memd.Packet)) func(acted func()) mock.Fault {
	return func(acted func()) mock.Fault {
		return mock.Rewrite(func(_, rep *memd.Packet) {
			if rep.Status == memd.StatusSuccess {
				f(rep)
				acted()
			}
		})
	}
}

// snappied is a value that says that it is compressed.
func snappied(value ...byte) func(acted func()) mock.Fault {
	return datatyped(func(rep *memd.Packet) { rep.Datatype, rep.Value = rep.Datatype|memd.DatatypeSnappy, value })
}

// hellos are the features that HELLO refuses in turn: all that the client asks for in these runs.
func hellos() []memd.Feature {
	return []memd.Feature{
		memd.FeatureXattr, memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON, memd.FeatureMutationSeqno,
		memd.FeatureTracing, memd.FeatureUnorderedExecution, memd.FeatureAltRequest, memd.FeatureSyncReplication,
		memd.FeatureCollections, memd.FeaturePreserveTTL, memd.FeatureGetClusterConfigWithVersion,
		memd.FeatureDedupeNotMyVBucket, memd.FeatureSnappy, memd.FeatureSnappyEverywhere, memd.FeatureVAttr,
		memd.FeatureSubdocCreateAsDeleted, memd.FeatureSubdocDocumentMacro, memd.FeatureSubdocReplaceBodyWithXattr,
		memd.FeatureSubdocReplicaRead, memd.FeatureSubdocMultipleXattrKeys, memd.FeatureSubdocBinaryXattr,
		memd.FeatureRangeScanIncludeXattr, memd.FeatureSubdocReplicaReadDeleted, memd.FeatureGetRandomKeyIncludeXattr,
		memd.FeatureDuplex, memd.FeatureClustermapChange, memd.FeatureClustermapChangeBrief,
		memd.FeatureReportUnitUsage,
	}
}

// refuseFeatures has nodes refuse up to half of the features; the end counts the HELLOs that asked for each of them,
// and says how many asked for any.
func (w *world) refuseFeatures(r *source) (end func() int) {
	all, at := hellos(), r.below(len(hellos()))
	var fs []memd.Feature
	var met []*mock.Counter
	for i := range 1 + r.below(len(all)/2) {
		f := all[(at+5*i)%len(all)]
		fs = append(fs, f)
		met = append(met, w.helloes(f))
	}
	w.m.RefuseFeatures(fs...)
	whole := w.helloes(fs...)
	return func() int {
		w.m.RefuseFeatures()
		for i, f := range fs {
			met[i].Remove()
			w.fired(refused(f), met[i].Fired())
		}
		whole.Remove()
		return whole.Fired()
	}
}

// helloes counts the HELLOs that ask for any of the features.
func (w *world) helloes(fs ...memd.Feature) *mock.Counter {
	return w.m.Count(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}, Func: func(rq *memd.Packet) bool {
		asked, err := memd.ParseFeatures(rq.Value)
		return err == nil && slices.ContainsFunc(fs, asked.Has)
	}})
}

const refusedFeature = "31 HELLO refuses "

func refused(f memd.Feature) string { return refusedFeature + f.String() }

func oddFaults() []fault {
	fs := slices.Concat(oddAnswers(), oddServers(), oddNetworks(), refusals())
	for _, step := range handshakeSteps {
		fs = append(fs, resetting(closedAt(step), step))
	}
	return fs
}

// oddAnswers are faults of single answers.
func oddAnswers() []fault {
	writes := []memd.Opcode{memd.OpSet, memd.OpAdd, memd.OpReplace}
	return []fault{
		injected("25a frames longer than the frames", 1, answers(framed([]byte{0x2f, 200, 1}))),
		injected("25b unknown frame", 6, answers(framed([]byte{0xb3, 1, 2, 3}))),
		injected("25c frames with escapes", 6, answers(framed(slices.Concat(
			[]byte{0xf1, 0, 1}, []byte{0xff, 255, 0}, make([]byte, 15), []byte{0x4f, 3}, make([]byte, 18))))),
		injected("26a unknown status, and the map says retry", 4, answers(mock.Status(statusRetried))),
		injected("26b unknown status, and the map has it", 4, answers(mock.StatusAfter(statusKnown))),
		orRefusals(injected("26c unknown status, and no map has it", 5, answers(mock.Status(statusNowhere)))),
		injected("26d unknown status that ends the connection", 1, answers(mock.Status(statusBreaks))),
		injected("26 unknown status, and the map says retry and internal", 3, answers(mock.StatusAfter(statusMayHave))),
		injected("26 internal error", 2, answers(mock.StatusAfter(memd.StatusInternal))),
		injected("26 no bucket", 1, answers(mock.Status(memd.StatusNoBucket))),
		orRefusals(injected("26 a limit is reached", 4, answers(mock.Status(memd.StatusRateLimitedMaxCommands)))),
		acting("27 corrupt snappy value", 3, answersActing(snappied(0x05, 0xff, 0xff, 0xff)), memd.OpGet),
		acting("28 snappy bomb", 3, answersActing(snappied(0xff, 0xff, 0xff, 0xff, 0x07, 0x00)), memd.OpGet),
		acting("29 datatype JSON, but not JSON", 5, answersActing(datatyped(func(rep *memd.Packet) {
			rep.Datatype |= memd.DatatypeJSON
		})), memd.OpGet),
		injected("29 an error with a body that is not JSON", 5,
			answers(mock.ErrorBody(memd.StatusTmpFail, []byte("{no")))),
		injected("35c durable write in doubt", 2, answers(mock.StatusAfter(memd.StatusSyncWriteAmbiguous)), writes...),
		configOnly(),
	}
}

// configOnly is a node that has nothing but the bucket's configuration: it refuses requests for documents, and in half
// of the cases it lets no new connection select the bucket.
func configOnly() fault {
	f := injected("45 node with the configuration only", 8, answers(mock.Status(memd.StatusConfigOnly)))
	documents := f.begin
	f.begin = func(w *world, r *source, addr string) func() int {
		end := documents(w, r, addr)
		if r.below(2) == 0 {
			return end
		}
		again := w.loginsAnew(addr, w.m.Inject(mock.Match{
			Nodes: w.nodesAt(addr), Opcodes: []memd.Opcode{memd.OpSelectBucket},
		}, mock.Status(memd.StatusConfigOnly)))
		return func() int { return end() + again() }
	}
	return f
}

// oddServers are faults of connections and nodes.
func oddServers() []fault {
	return []fault{
		{name: "46 no access to one scope", begin: func(w *world, _ *source, _ string) func() int {
			in := w.m.Inject(mock.Match{Opcodes: documentOps(), Collection: "s.c"}, mock.Status(memd.StatusAccess))
			return func() int {
				in.Remove()
				return in.Fired()
			}
		}},
		{name: "30 server requests in the middle of a burst", begin: func(w *world, r *source, addr string) func() int {
			if !w.pushes {
				return func() int { return 0 }
			}
			met := 0
			for range 1 + r.below(5) {
				for n := 0; n < 20 && w.tap.bursting(addr) == 0; n++ {
					sleep(context.Background(), r.between(time.Microsecond, 5*time.Millisecond))
				}
				w.m.Push()
				met += w.tap.bursting(addr)
				sleep(context.Background(), r.between(time.Microsecond, 5*time.Millisecond))
			}
			return func() int { return met }
		}},
		{name: "31 HELLO refuses some features", begin: func(w *world, r *source, addr string) func() int {
			end := w.refuseFeatures(r)
			w.breaks(addr)
			w.reset(w.linksTo(addr))
			return func() int {
				n := end()
				w.breaks(everywhere)
				w.reset(w.m.Network().Links()) // those of other nodes may be without it, too
				return n
			}
		}},
	}
}

// oddNetworks are faults of networks.
func oddNetworks() []fault {
	return []fault{
		onLinks("8 slow close", func(w *world, r *source, l *mock.Link) func() int {
			w.breaks(l.RemoteAddr())
			l.Down().Hold()
			l.Down().EndAfter(r.below(100))
			return gained(heldPieces, l.Down())
		}, func(_ *world, l *mock.Link) { l.Down().Resume() }),
		onLinks("12 a node reads slowly", func(w *world, _ *source, l *mock.Link) func() int {
			l.Up().SetBandwidth(300)
			return gained(slowedPieces, l.Up())
		}, func(_ *world, l *mock.Link) { l.Up().SetBandwidth(0) }),
		{name: "15 asymmetric partition", begin: func(w *world, r *source, addr string) func() int {
			ls := w.linksTo(addr)
			from, to := clientHost, host(addr)
			if r.below(2) == 0 {
				from, to = to, from
			}
			met := gained(lostPieces, both(w.linksOf(addr)...)...)
			w.m.Network().Blackhole(from, to)
			return func() int {
				n := met()
				w.m.Network().Heal(from, to)
				for i, l := range ls { // a stream has no holes: they stay dead
					gone(w, l)
					w.apart(l, i)
				}
				return n
			}
		}},
	}
}

// refusals are faults of logins, and jumps of the clock by which nodes end locks.
func refusals() []fault {
	return []fault{
		{name: "44a no login anywhere", begin: func(w *world, _ *source, addr string) func() int {
			in := w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLAuth}}, mock.Status(memd.StatusAuthError))
			return w.loginsAnew(addr, in)
		}},
		{name: "44c no login on one node", begin: func(w *world, _ *source, addr string) func() int {
			in := w.m.Inject(mock.Match{Nodes: w.nodesAt(addr), Opcodes: []memd.Opcode{memd.OpSASLAuth}},
				mock.Status(memd.StatusAuthError))
			return w.loginsAnew(addr, in)
		}},
		{name: "44 no access to the bucket", begin: func(w *world, r *source, addr string) func() int {
			nodes, links := w.nodesAt(addr), w.linksTo(addr)
			if r.below(2) == 0 { // at no node
				addr, nodes, links = everywhere, nil, w.m.Network().Links()
			}
			in := w.m.Inject(mock.Match{Nodes: nodes, Opcodes: []memd.Opcode{memd.OpSelectBucket}},
				mock.Status(memd.StatusAccess))
			w.breaks(addr)
			w.reset(links)
			return func() int {
				in.Remove()
				return in.Fired()
			}
		}},
		{name: "clock jumps: the nodes'", begin: func(w *world, r *source, _ string) func() int {
			had := w.locked()
			w.m.TimeTravel(r.between(0, 1000*time.Hour))
			unlocked := had - w.locked()
			w.reached(lockJumped, unlocked)
			asked := w.m.Count(mock.Match{Opcodes: []memd.Opcode{
				memd.OpTouch, memd.OpGAT, memd.OpGetLocked, memd.OpUnlockKey,
			}})
			return func() int {
				asked.Remove()
				return unlocked + asked.Fired()
			}
		}},
	}
}

// handshakeSteps are the steps of a handshake at which nodes hang up, but for HELLO.
var handshakeSteps = []memd.Opcode{
	memd.OpGetErrorMap, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep, memd.OpSelectBucket,
	memd.OpGetClusterConfig,
}

// lockJumped counts the locks that a jump of the nodes' clock has ended. Most jumps meet none: what they meet then are
// requests about locks and expiries.
const lockJumped = "a jump of the nodes' clock has ended a lock"

// locked is how many documents are locked.
func (w *world) locked() (n int) {
	for _, d := range w.m.Documents(bucketName) {
		if d.Locked {
			n++
		}
	}
	return n
}
