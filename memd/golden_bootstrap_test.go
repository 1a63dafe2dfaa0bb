package memd_test

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

func u16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func cat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// frame is one frame info; the lengths in the golden packets all fit.
func frame(id memd.FrameID, data []byte) []byte {
	out, err := memd.AppendFrame(nil, id, data)
	if err != nil {
		panic(err)
	}
	return out
}

const (
	agent = `{"i":"66388cf5dcf22fac/18cc8791579b567c","a":"couchcore/0.1"}`

	scramFirst  = "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
	scramServer = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
	scramFinal  = "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
	scramProof  = "v=rmF9pqV8S7suAoZWja4dJRkFsKQ="

	tinyConfig = `{"revEpoch":1,"rev":9,"name":"default"}`
)

func bootstrapGoldens() []golden {
	features := memd.AppendFeatures(nil, memd.FeatureXError, memd.FeatureMutationSeqno, memd.FeatureCollections,
		memd.FeatureAltRequest, memd.FeatureSyncReplication, memd.FeatureTracing)
	granted := memd.AppendFeatures(nil, memd.FeatureXError, memd.FeatureMutationSeqno, memd.FeatureCollections)
	req, res := memd.MagicReq, memd.MagicRes
	return []golden{
		{"hello_req", "HELLO request: agent as the key, six features", memd.Packet{
			Magic: req, Opcode: memd.OpHello, Opaque: 1, Key: []byte(agent), Value: features,
		}},
		{"hello_res", "HELLO response: three features granted", memd.Packet{
			Magic: res, Opcode: memd.OpHello, Opaque: 1, Value: granted,
		}},
		{"hello_res_traced", "HELLO response that already has a server duration (code 21, about 100 us)", memd.Packet{
			Magic: res, Opcode: memd.OpHello, Opaque: 1, Value: granted,
			Frames: frame(memd.FrameServerDuration, u16(21)),
		}},
		{"get_error_map_req", "GET_ERROR_MAP request: version 2 at most", memd.Packet{
			Magic: req, Opcode: memd.OpGetErrorMap, Opaque: 2, Value: u16(2),
		}},
		{"get_error_map_res", "GET_ERROR_MAP response", memd.Packet{
			Magic: res, Opcode: memd.OpGetErrorMap, Opaque: 2, Datatype: memd.DatatypeJSON,
			Value: []byte(`{"version":2,"revision":1,"errors":{}}`),
		}},
		{"sasl_list_mechs_req", "SASL_LIST_MECHS request", memd.Packet{
			Magic: req, Opcode: memd.OpSASLListMechs, Opaque: 3,
		}},
		{"sasl_list_mechs_res", "SASL_LIST_MECHS response", memd.Packet{
			Magic: res, Opcode: memd.OpSASLListMechs, Opaque: 3,
			Value: []byte("SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN"),
		}},
		{"sasl_auth_scram_req", "SASL_AUTH request: SCRAM client-first message", memd.Packet{
			Magic: req, Opcode: memd.OpSASLAuth, Opaque: 4, Key: []byte("SCRAM-SHA512"), Value: []byte(scramFirst),
		}},
		{"sasl_auth_continue_res", "SASL_AUTH response: AUTH_CONTINUE with the server-first message", memd.Packet{
			Magic: res, Opcode: memd.OpSASLAuth, Status: memd.StatusAuthContinue, Opaque: 4, Value: []byte(scramServer),
		}},
		{"sasl_step_req", "SASL_STEP request: SCRAM client-final message", memd.Packet{
			Magic: req, Opcode: memd.OpSASLStep, Opaque: 5, Key: []byte("SCRAM-SHA512"), Value: []byte(scramFinal),
		}},
		{"sasl_step_res", "SASL_STEP response: SCRAM server-final message", memd.Packet{
			Magic: res, Opcode: memd.OpSASLStep, Opaque: 5, Value: []byte(scramProof),
		}},
		{"sasl_auth_plain_req", "SASL_AUTH request: PLAIN", memd.Packet{
			Magic: req, Opcode: memd.OpSASLAuth, Opaque: 4, Key: []byte("PLAIN"), Value: []byte("\x00user\x00pencil"),
		}},
		{"sasl_auth_error_res", "SASL_AUTH response: AUTH_ERROR with an error body", memd.Packet{
			Magic: res, Opcode: memd.OpSASLAuth, Status: memd.StatusAuthError, Opaque: 4, Datatype: memd.DatatypeJSON,
			Value: []byte(`{"error":{"context":"Authentication failed","ref":"6f1c1c1e"}}`),
		}},
		{"select_bucket_req", "SELECT_BUCKET request", memd.Packet{
			Magic: req, Opcode: memd.OpSelectBucket, Opaque: 6, Key: []byte("travel-sample"),
		}},
		{"select_bucket_res", "SELECT_BUCKET response", memd.Packet{
			Magic: res, Opcode: memd.OpSelectBucket, Opaque: 6,
		}},
		{"select_bucket_access_res", "SELECT_BUCKET response: no access", memd.Packet{
			Magic: res, Opcode: memd.OpSelectBucket, Status: memd.StatusAccess, Opaque: 6,
		}},
		{"select_bucket_missing_res", "SELECT_BUCKET response: the bucket is not there", memd.Packet{
			Magic: res, Opcode: memd.OpSelectBucket, Status: memd.StatusKeyNotFound, Opaque: 6,
		}},
		{"get_cluster_config_req", "GET_CLUSTER_CONFIG request without a known version", memd.Packet{
			Magic: req, Opcode: memd.OpGetClusterConfig, Opaque: 7,
		}},
		{"get_cluster_config_known_req", "GET_CLUSTER_CONFIG request: epoch 1, revision 9 is known", memd.Packet{
			Magic: req, Opcode: memd.OpGetClusterConfig, Opaque: 7, Extras: cat(u64(1), u64(9)),
		}},
		{"get_cluster_config_res", "GET_CLUSTER_CONFIG response", memd.Packet{
			Magic: res, Opcode: memd.OpGetClusterConfig, Opaque: 7, Datatype: memd.DatatypeJSON,
			Value: []byte(tinyConfig),
		}},
		{"get_cluster_config_current_res", "GET_CLUSTER_CONFIG response: the known version is the newest", memd.Packet{
			Magic: res, Opcode: memd.OpGetClusterConfig, Opaque: 7,
		}},
		{"collections_get_id_req", "COLLECTIONS_GET_ID request: the path is the value", memd.Packet{
			Magic: req, Opcode: memd.OpCollectionsGetID, Opaque: 8, Value: []byte("inventory.hotel"),
		}},
		{"collections_get_id_res", "COLLECTIONS_GET_ID response: manifest 0x1f, collection 0x0a", memd.Packet{
			Magic: res, Opcode: memd.OpCollectionsGetID, Opaque: 8, Extras: cat(u64(0x1f), u32(0x0a)),
		}},
		{
			"collections_get_id_unknown_res", "COLLECTIONS_GET_ID response: unknown collection in manifest 1f",
			memd.Packet{
				Magic: res, Opcode: memd.OpCollectionsGetID, Status: memd.StatusUnknownCollection, Opaque: 8,
				Datatype: memd.DatatypeJSON, Value: []byte(`{"manifest_uid":"1f"}`),
			},
		},
		{
			"collections_get_id_unknown_scope_res", "COLLECTIONS_GET_ID response: unknown scope in manifest 1f",
			memd.Packet{
				Magic: res, Opcode: memd.OpCollectionsGetID, Status: memd.StatusUnknownScope, Opaque: 8,
				Datatype: memd.DatatypeJSON, Value: []byte(`{"manifest_uid":"1f"}`),
			},
		},
		{"noop_req", "NOOP request", memd.Packet{Magic: req, Opcode: memd.OpNoop, Opaque: 9}},
		{"noop_res", "NOOP response", memd.Packet{Magic: res, Opcode: memd.OpNoop, Opaque: 9}},
		{
			"notification_full",
			"server request CLUSTERMAP_CHANGE_NOTIFICATION: epoch 1, revision 9, bucket and config",
			memd.Packet{
				Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Datatype: memd.DatatypeJSON,
				Extras: cat(u64(1), u64(9)), Key: []byte("default"), Value: []byte(tinyConfig),
			},
		},
		{
			"notification_brief", "server request CLUSTERMAP_CHANGE_NOTIFICATION: epoch 1, revision 9 and bucket only",
			memd.Packet{
				Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange,
				Extras: cat(u64(1), u64(9)), Key: []byte("default"),
			},
		},
		{
			"notification_global", "server request CLUSTERMAP_CHANGE_NOTIFICATION of the global config: no key",
			memd.Packet{
				Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Extras: cat(u64(1), u64(9)),
			},
		},
		{
			"notification_old", "server request CLUSTERMAP_CHANGE_NOTIFICATION of an older server: revision of 32 bits",
			memd.Packet{
				Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Datatype: memd.DatatypeJSON,
				Extras: u32(9), Key: []byte("default"), Value: []byte(tinyConfig),
			},
		},
		{"server_request_refused", "client's answer to a server request it does not know", memd.Packet{
			Magic: memd.MagicServerRes, Opcode: memd.ServerOpActiveUsers, Status: memd.StatusUnknownCommand,
			Opaque: 0xdeadbeef,
		}},
	}
}
