package management

import "slices"

// Permissions that several rows have. "{bucket}" and the like are placeholders of the row's path.
const (
	readPools     = "cluster.pools!read"
	writePools    = "cluster.pools!write"
	readTasks     = "cluster.tasks!read"
	readNodes     = "cluster.nodes!read"
	readLogs      = "cluster.logs!read"
	setUp         = "cluster.admin.setup!write"
	readUsers     = "cluster.admin.security!read" // cluster.admin.users!read from 8.0 on, which the same accounts have
	writeUsers    = "cluster.admin.security!write"
	readZones     = "cluster.server_groups!read"
	writeZones    = "cluster.server_groups!write"
	bucketRead    = "cluster.bucket[{bucket}].settings!read"
	bucketWrite   = "cluster.bucket[{bucket}].settings!write"
	bucketStat    = "cluster.bucket[{bucket}].stats!read"
	bucketViews   = "cluster.bucket[{bucket}].views!read"
	bucketFlush   = "cluster.bucket[{bucket}]!flush"
	compactBucket = "cluster.bucket[{bucket}]!compact"
	bucketDelete  = "cluster.bucket[{bucket}]!delete"
	manifestRead  = "cluster.collection[{bucket}:.:.].collections!read"
	manifestWrite = "cluster.collection[{bucket}:.:.].collections!write"
	scopeWrite    = "cluster.collection[{bucket}:{scope}:.].collections!write"
	itemWrite     = "cluster.collection[{bucket}:{scope}:{collection}].collections!write"
	defaultRead   = "cluster.collection[{bucket}:_default:_default].data.docs!read"
	defaultUpsert = "cluster.collection[{bucket}:_default:_default].data.docs!upsert"
	defaultDelete = "cluster.collection[{bucket}:_default:_default].data.docs!delete"
	itemRead      = "cluster.collection[{bucket}:{scope}:{collection}].data.docs!read"
	itemUpsert    = "cluster.collection[{bucket}:{scope}:{collection}].data.docs!upsert"
	itemDelete    = "cluster.collection[{bucket}:{scope}:{collection}].data.docs!delete"
	exportStats   = "cluster.admin.stats_export!read"
	localStats    = "cluster.admin.internal.stats!read"
	rangeStats    = "cluster.collection[.:.:.].stats!read"
)

const (
	poolPath       = "/pools/default"
	bucketPath     = poolPath + "/buckets/{bucket}"
	scopesPath     = bucketPath + "/scopes"
	scopePath      = scopesPath + "/{scope}"
	collectionPath = scopePath + "/collections/{collection}"
	userPath       = "/settings/rbac/users/{domain}/{user}"
	groupPath      = "/settings/rbac/groups/{group}"
	zonesPath      = poolPath + "/serverGroups"
	zonePath       = zonesPath + "/{zone}"
)

// table has a row for every path of the service, as menelaus_web.erl has them.
func table() []route {
	return slices.Concat(poolRows(), bucketRows(), collectionRows(), userRows(), clusterRows(), otherRows(),
		pageRoutes())
}

func poolRows() []route {
	return []route{
		{"GET", "/", everybody, (*call).home},
		{"GET", "/ui", everybody, (*call).home},
		{"GET", "/index.html", everybody, (*call).home},
		{"GET", "/ui/index.html", everybody, (*call).page},
		{"GET", "/versions", login, (*call).getVersions},
		{"GET", "/whoami", login, (*call).whoami},
		{"GET", "/pools", readPools, (*call).getPools},
		{"GET", "/pools/nodes", readPools, (*call).getPool},
		{"GET", poolPath, readPools, (*call).getPool},
		{"POST", poolPath, writePools, (*call).writePool},
		{"GET", "/poolsStreaming/default", readPools, (*call).poolStream},
		{"GET", poolPath + "/terseClusterInfo", readPools, (*call).getClusterInfo},
		{"GET", poolPath + "/nodeServices", readPools, (*call).nodeServices},
		{"GET", poolPath + "/nodeServicesStreaming", readPools, (*call).servicesStream},
		{"GET", poolPath + "/tasks", readTasks, (*call).listTasks},
		{"GET", poolPath + "/rebalanceProgress", readTasks, (*call).rebalanceProgress},
		{"GET", poolPath + "/pendingRetryRebalance", readTasks, fixed(object{"retry_rebalance": "not_pending"})},
		{"GET", poolPath + "/currentRebalanceReport", readTasks, fixed(object{"is_rebalancing": false})},
		{"GET", poolPath + "/certificate", everybody, (*call).certificate},
		{"GET", poolPath + "/trustedCAs", login, (*call).trustedCAs},
		{"POST", poolPath + "/checkPermissions", login, (*call).postPermissions},
		{"GET", poolPath + "/remoteClusters", login, (*call).nothing},
		{"GET", poolPath + "/replications", login, (*call).nothing},
		{"GET", "/nodes/{node}", readNodes, (*call).getNode},
		{"GET", "/nodeStatuses", readNodes, (*call).getNodeStatuses},
	}
}

func bucketRows() []route {
	return []route{
		{"GET", poolPath + "/buckets", "cluster.bucket[.].settings!read", (*call).listBuckets},
		{"POST", poolPath + "/buckets", "cluster.buckets!create", (*call).createBucket},
		{"GET", bucketPath, bucketRead, (*call).getBucket},
		{"POST", bucketPath, bucketWrite, (*call).updateBucket},
		{"DELETE", bucketPath, bucketDelete, (*call).dropBucket},
		{"GET", poolPath + "/b/{bucket}", bucketRead, (*call).terseBucket},
		{"GET", poolPath + "/bs/{bucket}", bucketRead, (*call).terseStream},
		{"GET", poolPath + "/bucketsStreaming/{bucket}", bucketRead, (*call).bucketStream},
		{"POST", bucketPath + "/controller/doFlush", bucketFlush, (*call).flushBucket},
		{"POST", bucketPath + "/controller/compactBucket", compactBucket, (*call).accept},
		{"POST", bucketPath + "/controller/compactDatabases", compactBucket, (*call).accept},
		{"POST", bucketPath + "/controller/cancelBucketCompaction", compactBucket, (*call).accept},
		{"POST", bucketPath + "/controller/cancelDatabasesCompaction", compactBucket, (*call).accept},
		{"POST", bucketPath + "/controller/unsafePurgeBucket", bucketDelete, (*call).accept},
		{"POST", bucketPath + "/ddocs/{design}/controller/compactView", bucketViews, (*call).accept},
		{"GET", bucketPath + "/ddocs", bucketViews, (*call).listDesigns},
		{"GET", bucketPath + "/nodes", bucketRead, (*call).listBucketNodes},
		{"GET", bucketPath + "/nodes/{node}", bucketRead, (*call).getBucketNode},
		{"GET", bucketPath + "/nodes/{node}/stats", bucketStat, (*call).bucketStats},
		{"GET", bucketPath + "/stats", bucketStat, (*call).bucketStats},
		{"GET", bucketPath + "/stats/{stat}", bucketStat, (*call).bucketStatNodes},
		{"GET", bucketPath + "/statsDirectory", bucketStat, (*call).statsDirectory},
		{"GET", bucketPath + "/localRandomKey", defaultRead, (*call).randomKey},
		{"GET", bucketPath + "/docs", defaultRead, (*call).listDocuments},
		{"GET", bucketPath + "/docs/{key}", defaultRead, (*call).getDocument},
		{"POST", bucketPath + "/docs/{key}", defaultUpsert, (*call).putDocument},
		{"DELETE", bucketPath + "/docs/{key}", defaultDelete, (*call).dropDocument},
	}
}

func collectionRows() []route {
	return []route{
		{"GET", scopesPath, manifestRead, (*call).getManifest},
		{"POST", scopesPath, manifestWrite, (*call).createScope},
		{"PUT", scopesPath, manifestWrite, (*call).setManifest},
		{"POST", scopesPath + "/@ensureManifest/{uid}", manifestRead, (*call).ensureManifest},
		{"DELETE", scopePath, scopeWrite, (*call).dropScope},
		{"POST", scopePath + "/collections", scopeWrite, (*call).createCollection},
		{"PATCH", collectionPath, itemWrite, (*call).changeCollection},
		{"DELETE", collectionPath, itemWrite, (*call).dropCollection},
		{"GET", collectionPath + "/localRandomKey", itemRead, (*call).randomKey},
		{"GET", collectionPath + "/docs", itemRead, (*call).listDocuments},
		{"GET", collectionPath + "/docs/{key}", itemRead, (*call).getDocument},
		{"POST", collectionPath + "/docs/{key}", itemUpsert, (*call).putDocument},
		{"DELETE", collectionPath + "/docs/{key}", itemDelete, (*call).dropDocument},
	}
}

func userRows() []route {
	return []route{
		{"GET", "/settings/rbac/roles", readUsers, (*call).listRoles},
		{"GET", "/settings/rbac/users", readUsers, (*call).listUsers},
		{"GET", "/settings/rbac/users/{domain}", readUsers, (*call).listUsers},
		{"GET", userPath, readUsers, (*call).getUser},
		{"PUT", userPath, writeUsers, (*call).putUser},
		{"DELETE", userPath, writeUsers, (*call).dropUser},
		{"GET", "/settings/rbac/groups", readUsers, (*call).listGroups},
		{"GET", groupPath, readUsers, (*call).getGroup},
		{"PUT", groupPath, writeUsers, (*call).putGroup},
		{"DELETE", groupPath, writeUsers, (*call).dropGroup},
		{"GET", "/settings/rbac/profiles", readUsers, (*call).listProfiles},
		{"GET", "/settings/rbac/backup", readSecurity, (*call).backUpUsers},
		{"POST", "/controller/changePassword", login, (*call).changePassword},
	}
}

func clusterRows() []route {
	return []route{
		{"POST", "/clusterInit", setUp, (*call).initCluster},
		{"POST", "/nodeInit", setUp, (*call).initNode},
		{"POST", "/node/controller/doJoinCluster", setUp, (*call).joinCluster},
		{"POST", "/controller/hardResetNode", "cluster.admin.reset!write", (*call).accept},
		{"POST", "/node/controller/rename", setUp, (*call).renameNode},
		{"POST", "/node/controller/setupServices", setUp, (*call).setupServices},
		{"POST", "/node/controller/setupNetConfig", setUp, (*call).accept},
		{"POST", "/node/controller/enableExternalListener", setUp, (*call).accept},
		{"POST", "/node/controller/disableUnusedExternalListeners", setUp, (*call).accept},
		{"POST", "/nodes/{node}/controller/settings", setUp, (*call).accept},
		{"PUT", "/node/controller/setupAlternateAddresses/external", setUp, (*call).setExternal},
		{"DELETE", "/node/controller/setupAlternateAddresses/external", setUp, (*call).dropExternal},
		{"POST", "/node/controller/loadTrustedCAs", writeSecurity, (*call).nothing},
		{"POST", "/node/controller/reloadCertificate", writeSecurity, (*call).accept},
		{"GET", "/settings/web", readSettings, (*call).readWeb},
		{"POST", "/settings/web", setUp, (*call).writeWeb},
		{"POST", "/controller/failOver", writePools, (*call).failOver},
		{"POST", "/controller/startFailover", writePools, (*call).failOver},
		{"POST", "/controller/startGracefulFailover", writePools, (*call).gracefulFailOver},
		{"POST", "/controller/rebalance", writePools, (*call).rebalance},
		{"POST", "/controller/stopRebalance", writePools, (*call).accept},
		{"POST", "/controller/addNode", writePools, (*call).addNode},
		{"POST", "/controller/addNodeV2", writePools, (*call).addNode},
		{"POST", "/controller/ejectNode", writePools, (*call).eject},
		{"POST", "/controller/reAddNode", writePools, (*call).reAdd},
		{"POST", "/controller/reFailOver", writePools, (*call).reFailOver},
		{"POST", "/controller/setRecoveryType", writePools, (*call).setRecovery},
		{"GET", zonesPath, readZones, (*call).listZones},
		{"POST", zonesPath, writeZones, (*call).createZone},
		{"PUT", zonesPath, writeZones, (*call).assignZones},
		{"PUT", zonePath, writeZones, (*call).renameZone},
		{"DELETE", zonePath, writeZones, (*call).dropZone},
		{"POST", zonePath + "/addNode", writePools, (*call).addNode},
		{"POST", zonePath + "/addNodeV2", writePools, (*call).addNode},
	}
}

func otherRows() []route {
	return []route{
		{"POST", "/settings/autoFailover/resetCount", writeSettings, (*call).accept},
		{"POST", "/settings/autoReprovision/resetCount", writeSettings, (*call).accept},
		{"POST", "/settings/alerts/testEmail", writeSettings, (*call).accept},
		{"POST", "/controller/setAutoCompaction", "cluster.settings.autocompaction!write", (*call).writeAutoCompaction},
		{"POST", "/controller/resetAlerts", writeSettings, (*call).accept},
		{"POST", "/controller/startLogsCollection", "cluster.admin.logs!read", (*call).accept},
		{"POST", "/controller/cancelLogsCollection", "cluster.admin.logs!read", (*call).accept},
		{"GET", "/sampleBuckets", "cluster.samples!read", (*call).listSamples},
		{"POST", "/sampleBuckets/install", "cluster.buckets!create", (*call).installSamples},
		{"GET", "/indexStatus", "cluster.collection[.:.:.].n1ql.index!read", (*call).listIndexes},
		{"GET", "/logs", readLogs, (*call).listLogs},
		{"GET", "/events", readLogs, (*call).listEvents},
		{"POST", "/controller/createReplication", login, (*call).createReplication},
		{"POST", "/logClientError", login, (*call).accept},
		{"GET", "/metrics", exportStats, (*call).metrics},
		{"GET", "/_prometheusMetrics", localStats, (*call).metrics},
		{"GET", "/_prometheusMetricsHigh", localStats, (*call).metrics},
		{"GET", "/_metering", localStats, (*call).metrics},
		{"GET", poolPath + "/stats/range/{rest...}", rangeStats, (*call).statsRange},
		{"POST", poolPath + "/stats/range", rangeStats, (*call).statsRanges},
	}
}

// fixed is a handler that always answers the same.
func fixed(o object) func(*call) { return func(x *call) { x.send(o) } }
