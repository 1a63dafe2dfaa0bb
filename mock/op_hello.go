package mock

import (
	"encoding/binary"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// HELLO: grants features and switches their effects on from its own answer onward. A second HELLO starts from nothing.
// The agent name is not looked at.

// grantable are the features that have an effect here, or that are merely informational for a client.
var grantable = []memd.Feature{
	memd.FeatureReportUnitUsage, memd.FeatureTCPNoDelay, memd.FeatureMutationSeqno, memd.FeatureXattr,
	memd.FeatureXError, memd.FeatureSelectBucket,
	memd.FeatureJSON, memd.FeatureDuplex, memd.FeatureClustermapChange, memd.FeatureUnorderedExecution,
	memd.FeatureTracing, memd.FeatureAltRequest, memd.FeatureSyncReplication, memd.FeatureCollections,
	memd.FeaturePreserveTTL, memd.FeatureGetClusterConfigWithVersion, memd.FeatureDedupeNotMyVBucket,
	memd.FeatureClustermapChangeBrief, memd.FeatureVAttr, memd.FeatureSubdocCreateAsDeleted,
	memd.FeatureSubdocDocumentMacro, memd.FeatureSubdocReplaceBodyWithXattr, memd.FeatureSubdocReplicaRead,
	memd.FeatureSubdocMultipleXattrKeys, memd.FeatureSubdocBinaryXattr, memd.FeatureSubdocReplicaReadDeleted,
	memd.FeatureRangeScanIncludeXattr, memd.FeatureGetRandomKeyIncludeXattr, memd.FeatureSnappy,
	memd.FeatureSnappyEverywhere,
}

// featureNeeds lists what must be asked for together (spec 01, section 7).
var featureNeeds = []struct{ feature, needs memd.Feature }{
	{memd.FeatureClustermapChange, memd.FeatureDuplex},
	{memd.FeatureClustermapChangeBrief, memd.FeatureDuplex},
	{memd.FeatureVAttr, memd.FeatureXattr},
	{memd.FeatureSubdocDocumentMacro, memd.FeatureXattr},
	{memd.FeatureRangeScanIncludeXattr, memd.FeatureXattr},
}

func hello(rq *request) reply {
	if len(rq.p.Value)%2 != 0 {
		return fail(memd.StatusInvalid, "HELLO value has an odd length")
	}
	var asked []memd.Feature
	for v := rq.p.Value; len(v) > 0; v = v[2:] {
		asked = append(asked, memd.Feature(binary.BigEndian.Uint16(v)))
	}
	for _, d := range featureNeeds {
		if slices.Contains(asked, d.feature) && !slices.Contains(asked, d.needs) {
			return fail(memd.StatusInvalid, "%v needs %v", d.feature, d.needs)
		}
	}
	c := rq.k.c
	brief := slices.Contains(asked, memd.FeatureClustermapChangeBrief) && !c.refuses(memd.FeatureClustermapChangeBrief)
	var granted memd.Features
	var list []memd.Feature
	for _, f := range asked {
		switch {
		case granted.Has(f), !slices.Contains(grantable, f), c.refuses(f):
		case f == memd.FeatureClustermapChange && brief,
			f == memd.FeatureReportUnitUsage && !c.set.units:
		default:
			granted = granted.With(f)
			list = append(list, f)
		}
	}
	rq.k.features.Store(uint64(granted))
	return reply{value: memd.AppendFeatures(nil, list...)}
}
