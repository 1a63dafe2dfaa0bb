package memd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Feature is what HELLO negotiates. The numbers are those of kv_engine's feature.h.
type Feature uint16

// Features.
const (
	FeatureDatatype                    Feature = 0x01
	FeatureTLS                         Feature = 0x02
	FeatureTCPNoDelay                  Feature = 0x03
	FeatureMutationSeqno               Feature = 0x04
	FeatureTCPDelay                    Feature = 0x05
	FeatureXattr                       Feature = 0x06
	FeatureXError                      Feature = 0x07
	FeatureSelectBucket                Feature = 0x08
	FeatureSnappy                      Feature = 0x0a
	FeatureJSON                        Feature = 0x0b
	FeatureDuplex                      Feature = 0x0c
	FeatureClustermapChange            Feature = 0x0d
	FeatureUnorderedExecution          Feature = 0x0e
	FeatureTracing                     Feature = 0x0f
	FeatureAltRequest                  Feature = 0x10
	FeatureSyncReplication             Feature = 0x11
	FeatureCollections                 Feature = 0x12
	FeatureSnappyEverywhere            Feature = 0x13
	FeaturePreserveTTL                 Feature = 0x14
	FeatureVAttr                       Feature = 0x15
	FeaturePiTR                        Feature = 0x16
	FeatureSubdocCreateAsDeleted       Feature = 0x17
	FeatureSubdocDocumentMacro         Feature = 0x18
	FeatureSubdocReplaceBodyWithXattr  Feature = 0x19
	FeatureReportUnitUsage             Feature = 0x1a
	FeatureNonBlockingThrottling       Feature = 0x1b
	FeatureSubdocReplicaRead           Feature = 0x1c
	FeatureGetClusterConfigWithVersion Feature = 0x1d
	FeatureDedupeNotMyVBucket          Feature = 0x1e
	FeatureClustermapChangeBrief       Feature = 0x1f
	FeatureSubdocMultipleXattrKeys     Feature = 0x20
	FeatureSubdocBinaryXattr           Feature = 0x21
	FeatureRangeScanIncludeXattr       Feature = 0x22
	FeatureSubdocReplicaReadDeleted    Feature = 0x23
	FeatureGetRandomKeyIncludeXattr    Feature = 0x24
	FeatureMutateWithMeta              Feature = 0x25
	FeatureDCPSkipDeletes              Feature = 0x26
)

var featureNames = map[Feature]string{
	FeatureDatatype:                    "Datatype",
	FeatureTLS:                         "TLS",
	FeatureTCPNoDelay:                  "TCPNoDelay",
	FeatureMutationSeqno:               "MutationSeqno",
	FeatureTCPDelay:                    "TCPDelay",
	FeatureXattr:                       "Xattr",
	FeatureXError:                      "XError",
	FeatureSelectBucket:                "SelectBucket",
	FeatureSnappy:                      "Snappy",
	FeatureJSON:                        "JSON",
	FeatureDuplex:                      "Duplex",
	FeatureClustermapChange:            "ClustermapChange",
	FeatureUnorderedExecution:          "UnorderedExecution",
	FeatureTracing:                     "Tracing",
	FeatureAltRequest:                  "AltRequest",
	FeatureSyncReplication:             "SyncReplication",
	FeatureCollections:                 "Collections",
	FeatureSnappyEverywhere:            "SnappyEverywhere",
	FeaturePreserveTTL:                 "PreserveTTL",
	FeatureVAttr:                       "VAttr",
	FeaturePiTR:                        "PiTR",
	FeatureSubdocCreateAsDeleted:       "SubdocCreateAsDeleted",
	FeatureSubdocDocumentMacro:         "SubdocDocumentMacro",
	FeatureSubdocReplaceBodyWithXattr:  "SubdocReplaceBodyWithXattr",
	FeatureReportUnitUsage:             "ReportUnitUsage",
	FeatureNonBlockingThrottling:       "NonBlockingThrottling",
	FeatureSubdocReplicaRead:           "SubdocReplicaRead",
	FeatureGetClusterConfigWithVersion: "GetClusterConfigWithVersion",
	FeatureDedupeNotMyVBucket:          "DedupeNotMyVBucket",
	FeatureClustermapChangeBrief:       "ClustermapChangeBrief",
	FeatureSubdocMultipleXattrKeys:     "SubdocMultipleXattrKeys",
	FeatureSubdocBinaryXattr:           "SubdocBinaryXattr",
	FeatureRangeScanIncludeXattr:       "RangeScanIncludeXattr",
	FeatureSubdocReplicaReadDeleted:    "SubdocReplicaReadDeleted",
	FeatureGetRandomKeyIncludeXattr:    "GetRandomKeyIncludeXattr",
	FeatureMutateWithMeta:              "MutateWithMeta",
	FeatureDCPSkipDeletes:              "DCPSkipDeletes",
}

// Known reports whether f has a name in the feature table.
func (f Feature) Known() bool { return featureNames[f] != "" }

func (f Feature) String() string {
	if n := featureNames[f]; n != "" {
		return n
	}
	return fmt.Sprintf("Feature(0x%02x)", uint16(f))
}

// Features is a set of the features below 64; those above have no bit and are left out.
type Features uint64

// Has reports whether f is in the set.
func (s Features) Has(f Feature) bool { return f < 64 && s&(1<<f) != 0 }

// With returns the set with f in it.
func (s Features) With(f Feature) Features {
	if f < 64 {
		s |= 1 << f
	}
	return s
}

// Without returns the set with f taken out.
func (s Features) Without(f Feature) Features {
	if f < 64 {
		s &^= 1 << f
	}
	return s
}

// ErrHello means that the value of a HELLO packet has an odd length.
var ErrHello = errors.New("memd: HELLO value has an odd length")

// AppendFeatures appends the features in the form of a HELLO packet's value: two bytes each.
func AppendFeatures(dst []byte, fs ...Feature) []byte {
	for _, f := range fs {
		dst = binary.BigEndian.AppendUint16(dst, uint16(f))
	}
	return dst
}

// ParseFeatures reads the value of a HELLO packet. Features without a name are kept out of the set.
func ParseFeatures(value []byte) (Features, error) {
	if len(value)%2 != 0 {
		return 0, ErrHello
	}
	var s Features
	for ; len(value) > 0; value = value[2:] {
		if f := Feature(binary.BigEndian.Uint16(value)); f.Known() {
			s = s.With(f)
		}
	}
	return s, nil
}
