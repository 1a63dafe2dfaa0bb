package mock

import (
	"encoding/binary"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// HELLO: grants the features that the node's release has and switches their effects on from its own answer onward. The
// answer lists them in the order of their numbers. A second HELLO starts from nothing. The agent name is kept for
// Connections and not looked at otherwise.

// featureNeeds lists what must be asked for together. The names are a server's.
var featureNeeds = []struct {
	feature memd.Feature
	needs   []memd.Feature
	refusal string
}{
	{
		memd.FeatureClustermapChange,
		[]memd.Feature{memd.FeatureDuplex},
		"Clustermap change notification needs Duplex",
	},
	{
		memd.FeatureClustermapChangeBrief,
		[]memd.Feature{memd.FeatureDuplex},
		"ClustermapChangeNotificationBrief needs Duplex",
	},
	{memd.FeatureVAttr, []memd.Feature{memd.FeatureXattr}, "VAttr needs XATTR"},
	{memd.FeatureSubdocDocumentMacro, []memd.Feature{memd.FeatureXattr}, "SubdocDocumentMacroSupport needs XATTR"},
	{memd.FeatureRangeScanIncludeXattr, []memd.Feature{memd.FeatureXattr}, "RangeScanIncludeXattr needs XATTR"},
	{
		memd.FeatureGetRandomKeyIncludeXattr,
		[]memd.Feature{memd.FeatureXattr, memd.FeatureJSON, memd.FeatureSnappyEverywhere},
		"GetRandomKeyIncludeXattr needs XATTR, JSON and SnappyEverywhere",
	},
}

func hello(rq *request) reply {
	agent := string(rq.p.Key)
	rq.k.agent.Store(&agent)
	if len(rq.p.Value)%2 != 0 {
		return fail(memd.StatusInvalid, "Request value must be of even length")
	}
	var asked memd.Features
	for v := rq.p.Value; len(v) > 0; v = v[2:] {
		asked = asked.With(memd.Feature(binary.BigEndian.Uint16(v)))
	}
	asked &= rq.k.n.profile.hello
	if asked.Has(memd.FeatureTCPDelay) && asked.Has(memd.FeatureTCPNoDelay) {
		return fail(memd.StatusInvalid, "TCPNODELAY cannot co-exist with TCPDELAY")
	}
	for _, d := range featureNeeds {
		if asked.Has(d.feature) && slices.ContainsFunc(d.needs, func(f memd.Feature) bool { return !asked.Has(f) }) {
			return fail(memd.StatusInvalid, "%s", d.refusal)
		}
	}
	c := rq.k.c
	granted := asked &^ c.refused()
	if granted.Has(memd.FeatureClustermapChangeBrief) {
		granted = granted.Without(memd.FeatureClustermapChange)
	}
	if !c.set.units {
		granted = granted.Without(memd.FeatureReportUnitUsage)
	}
	var list []memd.Feature
	for _, row := range helloRows {
		if granted.Has(row.what) {
			list = append(list, row.what)
		}
	}
	rq.k.features.Store(uint64(granted))
	return reply{value: memd.AppendFeatures(nil, list...)}
}
