package management

import "math"

const (
	readSettings  = "cluster.settings!read"
	writeSettings = "cluster.settings!write"
	readSecurity  = "cluster.admin.security!read"
	writeSecurity = "cluster.admin.security!write"
	readAdmin     = "cluster.admin.settings!read"
	writeAdmin    = "cluster.admin.settings!write"
	readIndexes   = "cluster.settings.indexes!read"
	writeIndexes  = "cluster.settings.indexes!write"
)

var wide = isInt(0, math.MaxInt64)

// pages are the settings of the cluster. Names, defaults and limits are those of ns_server, in the modules that the
// rows name.
var pages = []page{
	{ // query_settings_manager.erl
		path: "/settings/querySettings", read: readSettings, write: writeSettings, answers: true,
		settings: []setting{
			{"queryTmpSpaceDir", "/opt/couchbase/var/lib/couchbase/tmp", isText},
			{"queryTmpSpaceSize", 5120, isInt(-1, math.MaxInt64)},
			{"queryPipelineBatch", 16, anyInt},
			{"queryPipelineCap", 512, anyInt},
			{"queryScanCap", 512, anyInt},
			{"queryTimeout", 0, anyInt},
			{"queryPreparedLimit", 16384, wide},
			{"queryCompletedLimit", 4000, anyInt},
			{"queryCompletedThreshold", 1000, anyInt},
			{"queryLogLevel", "info", oneOf("debug", "trace", "info", "warn", "error", "severe", "none")},
			{"queryMaxParallelism", 1, anyInt},
			{"queryTxTimeout", "0ms", isDuration},
			{"queryMemoryQuota", 0, anyInt},
			{"queryUseCBO", true, isBool},
			{"queryCleanupClientAttempts", true, isBool},
			{"queryCleanupLostAttempts", true, isBool},
			{"queryCleanupWindow", "60s", isDuration},
			{"queryNumAtrs", 1024, anyInt},
			{"queryNodeQuota", 0, wide},
			{"queryUseReplica", "unset", oneOf("unset", "off", "on")},
			{"queryNodeQuotaValPercent", 67, isInt(0, 100)},
			{"queryNumCpus", 0, wide},
			{"queryCompletedMaxPlanSize", 262144, wide},
			{"queryN1QLFeatCtrl", 76, anyInt},
			{"queryCurlWhitelist", object{
				"all_access": false, "allowed_urls": []string{},
				"disallowed_urls": []string{},
			}, nil},
		},
	},
	{
		path: "/settings/querySettings/curlWhitelist", read: readSettings, write: writeSettings, answers: true,
		json: true,
		settings: []setting{
			{"all_access", false, isBool},
			{"allowed_urls", []string{}, nil},
			{"disallowed_urls", []string{}, nil},
		},
	},
	{ // index_settings_manager.erl, menelaus_web_indexes.erl
		path: "/settings/indexes", read: readIndexes, write: writeIndexes, answers: true,
		settings: []setting{
			{"redistributeIndexes", false, isBool},
			{"numReplica", 0, isInt(0, 16)},
			{"enablePageBloomFilter", false, isBool},
			{"indexerThreads", 0, isInt(0, 1024)},
			{"memorySnapshotInterval", 200, isInt(1, math.MaxInt64)},
			{"stableSnapshotInterval", 5000, isInt(1, math.MaxInt64)},
			{"maxRollbackPoints", 2, isInt(1, math.MaxInt64)},
			{"enableShardAffinity", false, isBool},
			{"logLevel", "info", oneOf("silent", "fatal", "error", "warn", "info", "verbose", "timing", "debug",
				"trace")},
			{"storageMode", "plasma", oneOf("plasma", "memory_optimized")},
		},
	},
	{ // menelaus_web_auto_failover.erl
		path: "/settings/autoFailover", read: readSettings, write: writeSettings, required: []string{"enabled"},
		settings: []setting{
			{"enabled", true, isBool},
			{"timeout", 120, isInt(1, 3600)},
			{"count", 0, nil},
			{"maxCount", 1, isInt(1, 100)},
			{"failoverOnDataDiskIssues", object{"enabled": false, "timePeriod": 120}, nil},
			{"failoverOnDataDiskIssues[enabled]", nil, isBool},
			{"failoverOnDataDiskIssues[timePeriod]", nil, isInt(5, 3600)},
			{"canAbortRebalance", true, isBool},
			{"failoverPreserveDurabilityMajority", false, isBool},
			{"disableMaxCount", false, isBool},
			{"failoverServerGroup", nil, isBool},
		},
	},
	{
		path: "/settings/autoReprovision", read: readSettings, write: writeSettings, required: []string{"enabled"},
		settings: []setting{
			{"enabled", true, isBool},
			{"maxNodes", 1, isInt(1, math.MaxInt32)},
			{"count", 0, nil},
		},
	},
	{
		path: "/settings/stats", read: readSettings, write: writeSettings, required: []string{"sendStats"},
		settings: []setting{{"sendStats", false, isBool}},
	},
	{
		path: "/settings/failover", read: readSettings, write: writeSettings, answers: true,
		settings: []setting{{"preserveDurableMutations", true, isBool}},
	},
	{
		path: "/settings/rebalance", read: readSettings, write: writeSettings, answers: true,
		settings: []setting{{"rebalanceMovesPerNode", 4, isInt(1, 64)}},
	},
	{
		path: "/settings/retryRebalance", read: readSettings, write: writeSettings, answers: true,
		settings: []setting{
			{"enabled", false, isBool},
			{"afterTimePeriod", 300, isInt(5, 3600)},
			{"maxAttempts", 1, isInt(1, 3)},
		},
	},
	{
		path: "/settings/logRedaction", read: readSettings, write: writeSecurity, answers: true,
		settings: []setting{{"logRedactionLevel", "none", oneOf("none", "partial")}},
	},
	{
		path: "/settings/maxParallelIndexers", read: readIndexes, write: writeIndexes, answers: true,
		settings: []setting{{"globalValue", 4, isInt(1, 1024)}, {"nodes", object{}, nil}},
	},
	{
		path: "/settings/viewUpdateDaemon", read: readIndexes, write: writeIndexes, answers: true,
		settings: []setting{
			{"updateInterval", 5000, wide},
			{"updateMinChanges", 5000, wide},
			{"replicaUpdateMinChanges", 5000, wide},
		},
	},
	{
		path: "/settings/analytics", read: "cluster.settings.analytics!read", write: "cluster.settings.analytics!write",
		answers: true, settings: []setting{{"numReplicas", 0, isInt(0, 3)}, {"blobStorageRegion", "", isText}},
	},
	{
		path: "/settings/dataService", read: readAdmin, write: writeAdmin, answers: true,
		settings: []setting{{"minReplicasCount", 0, isInt(0, 3)}},
	},
	{
		path: "/settings/resourceManagement", read: readAdmin, write: writeAdmin, answers: true, formOrJSON: true,
		settings: []setting{
			{"bucket.residentRatio.enabled", false, isBool},
			{"bucket.residentRatio.couchstoreMinimum", 1, isNumber(100)},
			{"bucket.residentRatio.magmaMinimum", 0.2, isNumber(100)},
			{"bucket.dataSizePerNode.enabled", false, isBool},
			{"bucket.dataSizePerNode.couchstoreMaximum", 2, isNumber(math.Inf(1))},
			{"bucket.dataSizePerNode.magmaMaximum", 16, isNumber(math.Inf(1))},
			{"bucket.collectionsPerQuota.enabled", false, isBool},
			{"bucket.collectionsPerQuota.maximum", 1, isNumber(math.Inf(1))},
			{"diskUsage.enabled", false, isBool},
			{"diskUsage.maximum", 96, isNumber(100)},
			{"coresPerBucket.enabled", false, isBool},
			{"coresPerBucket.minimum", 0.4, isNumber(math.Inf(1))},
		},
	},
	{
		path: "/settings/alerts", read: readSettings, write: writeSettings, loose: true,
		settings: []setting{
			{"enabled", false, isBool},
			{"recipients", []string{"root@localhost"}, isList},
			{"sender", "couchbase@localhost", isText},
			{"emailServer", object{"user": "", "pass": "", "host": "localhost", "port": 25, "encrypt": false}, nil},
			{"alerts", []string{"auto_failover_node", "auto_failover_maximum_reached"}, isList},
			{"pop_up_alerts", []string{"auto_failover_node", "auto_failover_maximum_reached"}, isList},
		},
	},
	{
		path: "/settings/autoCompaction", read: "cluster.settings.autocompaction!read",
		settings: []setting{
			{"autoCompactionSettings", object{
				"parallelDBAndViewCompaction": false, "magmaFragmentationPercentage": 50,
				"databaseFragmentationThreshold": object{"percentage": 30, "size": "undefined"},
				"viewFragmentationThreshold":     object{"percentage": 30, "size": "undefined"},
				"indexCompactionMode":            "circular",
				"indexCircularCompaction": object{
					"daysOfWeek": "Sunday,Monday,Tuesday,Wednesday,Thursday,Friday,Saturday",
					"interval": object{
						"fromHour": 0, "toHour": 0, "fromMinute": 0, "toMinute": 0,
						"abortOutside": false,
					},
				},
				"indexFragmentationThreshold": object{"percentage": 30},
			}, nil}, {"purgeInterval", 3, nil},
		},
	},
	{ // menelaus_web_settings.erl, conf(security)
		path: "/settings/security", read: readSecurity, write: writeSecurity,
		settings: []setting{
			{"disableUIOverHttp", false, isBool},
			{"disableUIOverHttps", false, isBool},
			{"disableWWWAuthenticate", false, isBool},
			{"responseHeaders", object{}, nil},
			{"uiSessionTimeout", nil, isInt(60, 1000000)},
			{"tlsMinVersion", "tlsv1.2", oneOf("tlsv1.2", "tlsv1.3")},
			{"cipherSuites", []string{}, isList},
			{"honorCipherOrder", true, isBool},
			{"clusterEncryptionLevel", "control", oneOf("control", "all", "strict")},
			{"allowNonLocalCACertUpload", false, isBool},
			{"allowedHosts", []string{"*"}, isList},
			{"passwordHashAlg", "argon2id", oneOf("argon2id", "pbkdf2-hmac-sha512", "SHA-1")},
			{"scramSha1Enabled", true, isBool},
			{"scramSha256Enabled", true, isBool},
			{"scramSha512Enabled", true, isBool},
			{"oauthBearerEnabled", true, isBool},
			{"scramShaIterations", 15000, isInt(1, 10000000)},
		},
	},
	{ // conf(internal)
		path: "/internalSettings", read: readAdmin, write: writeAdmin, answers: true, loose: true,
		settings: []setting{
			{"indexAwareRebalanceDisabled", false, isBool},
			{"rebalanceIndexWaitingDisabled", false, isBool},
			{"rebalanceIndexPausingDisabled", false, isBool},
			{"rebalanceIgnoreViewCompactions", false, isBool},
			{"rebalanceMovesBeforeCompaction", 64, isInt(1, 1024)},
			{"maxParallelIndexers", "", isInt(1, 1024)},
			{"maxParallelReplicaIndexers", "", isInt(1, 1024)},
			{"maxBucketCount", 30, isInt(1, 8192)},
			{"magmaMinMemoryQuota", 100, isInt(100, 1024)},
			{"eventLogsLimit", 10000, isInt(3000, 20000)},
			{"gotraceback", "single", isText},
			{"httpNodeAddition", false, isBool},
			{"maxDocsSkip", 1000, wide},
			{"maxDocsLimit", 1000, wide},
		},
	},
	{
		path: "/settings/passwordPolicy", read: readSecurity, write: writeSecurity,
		settings: []setting{
			{"minLength", 6, isInt(0, 100)},
			{"enforceUppercase", false, isBool},
			{"enforceLowercase", false, isBool},
			{"enforceDigits", false, isBool},
			{"enforceSpecialChars", false, isBool},
		},
	},
	{
		path: "/settings/audit", read: readSecurity, write: writeSecurity, loose: true,
		settings: []setting{
			{"auditdEnabled", false, isBool},
			{"rotateInterval", 86400, wide},
			{"rotateSize", 20971520, wide},
			{"disabled", []int{}, isList},
			{"disabledUsers", []any{}, isList},
			{"logPath", "/opt/couchbase/var/lib/couchbase/logs", isText},
			{"uid", "0", nil},
			{"pruneAge", 0, wide},
		},
	},
	{
		path: "/settings/clientCertAuth", read: readSecurity, write: writeSecurity, json: true,
		settings: []setting{{"state", "disable", isText}, {"prefixes", []any{}, nil}},
	},
	{
		path: "/settings/ldap", read: readSecurity, write: writeSecurity, answers: true, loose: true, formOrJSON: true,
		settings: []setting{
			{"authenticationEnabled", false, isBool},
			{"authorizationEnabled", false, isBool},
			{"hosts", []string{}, isList},
			{"port", 389, wide},
			{"encryption", "None", isText},
			{"bindDN", "", isText},
		},
	},
	{
		path: "/settings/saslauthdAuth", read: readSecurity, write: writeSecurity, answers: true,
		settings: []setting{
			{"enabled", false, isBool},
			{"admins", []string{}, isList},
			{"roAdmins", []string{}, isList},
			{"available", false, nil},
		},
	},
	{
		path: "/settings/developerPreview", read: login, write: "cluster.admin.setup!write",
		settings: []setting{{"enabled", false, onlyTrue}},
	},
	{
		path: "/settings/license", read: "cluster.admin.license!read", write: "cluster.admin.license!write",
		answers: true,
		settings: []setting{
			{"reporting_enabled", false, isBool},
			{"reporting_interval", 3_600_000, isInt(60_000, math.MaxInt64)},
			{"contract_id", "", isText},
			{"customer_token", "", isHidden},
			{"reporting_endpoint", "https://ph.couchbase.net/odp", nil},
			{"reporting_timeout", 5000, nil},
		},
	},
	{
		path: "/settings/appTelemetry", read: "cluster.settings.metrics!read", write: "cluster.settings.metrics!write",
		answers: true, formOrJSON: true,
		settings: []setting{
			{"enabled", false, isBool},
			{"scrapeIntervalSeconds", 60, isInt(60, 600)},
			{"maxScrapeClientsPerNode", 1024, isInt(1, 1024)},
		},
	},
	{
		path: "/settings/metrics", read: "cluster.settings.metrics!read", write: "cluster.settings.metrics!write",
		answers: true, loose: true, formOrJSON: true,
		settings: []setting{
			{"retentionSize", 1024, wide},
			{"retentionTime", 365, wide},
			{"scrapeInterval", 10, wide},
		},
	},
	{
		path: "/pools/default/settings/memcached/global", read: "cluster.admin.memcached!read",
		write: "cluster.admin.memcached!write", answers: true, loose: true,
	},
}
