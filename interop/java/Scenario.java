// The scenario of interop/run with Couchbase's Java SDK. It prints one line per step.

import com.couchbase.client.core.error.CasMismatchException;
import com.couchbase.client.core.error.DocumentNotFoundException;
import com.couchbase.client.core.error.RequestCanceledException;
import com.couchbase.client.core.msg.kv.DurabilityLevel;
import com.couchbase.client.java.*;
import com.couchbase.client.java.json.JsonObject;
import com.couchbase.client.java.kv.*;
import com.couchbase.client.java.manager.collection.CollectionSpec;
import com.couchbase.client.java.manager.query.CreatePrimaryQueryIndexOptions;
import com.couchbase.client.java.manager.search.SearchIndex;
import com.couchbase.client.java.manager.user.*;
import com.couchbase.client.java.manager.view.*;
import com.couchbase.client.java.query.QueryOptions;
import com.couchbase.client.java.search.*;
import com.couchbase.client.java.search.facet.SearchFacet;
import com.couchbase.client.java.view.*;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.List;
import java.util.Map;

public class Scenario {
	static final String env(String name) { return System.getenv(name); }

	static final Cluster cluster = Cluster.connect(env("CONNECT"), env("LOGIN"), env("PASSWORD"));
	static final Bucket bucket = cluster.bucket("default");
	static final Collection docs = bucket.defaultCollection();

	interface Step { void run() throws Exception; }

	static void check(boolean ok, Object what) {
		if (!ok) throw new AssertionError(what);
	}

	static void control(String path, String body) throws Exception {
		var request = HttpRequest.newBuilder(URI.create(env("CONTROL") + path)).POST(HttpRequest.BodyPublishers.ofString(body)).build();
		var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
		check(answer.statusCode() == 200, answer.body());
	}

	static <E extends Exception> void fails(Class<E> kind, Step step) throws Exception {
		try {
			step.run();
		} catch (Exception e) {
			if (kind.isInstance(e)) return;
			throw e;
		}
		throw new AssertionError("no " + kind.getSimpleName());
	}

	static JsonObject n(Object value) { return JsonObject.create().put("n", value); }

	static Object nOf(String key) { return docs.get(key).contentAsObject().get("n"); }

	static void run(String name, Step step) {
		try {
			step.run();
			System.out.println(name + " ok");
		} catch (Throwable e) {
			e.printStackTrace();
			System.out.println(name + " FAIL " + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
		}
	}

	public static void main(String[] args) throws Exception {
		run("connect", () -> check(cluster.ping().id() != null, "no id"));
		run("ready", () -> {
			cluster.waitUntilReady(Duration.ofSeconds(20));
			bucket.waitUntilReady(Duration.ofSeconds(20));
		});
		run("crud", () -> {
			docs.upsert("k", n(1));
			check(nOf("k").equals(1), nOf("k"));
			docs.insert("k2", n(2));
			docs.remove("k2");
			fails(DocumentNotFoundException.class, () -> docs.get("k2"));
		});
		run("cas", () -> {
			long cas = docs.get("k").cas();
			docs.replace("k", n(3), ReplaceOptions.replaceOptions().cas(cas));
			fails(CasMismatchException.class, () -> docs.replace("k", n(4), ReplaceOptions.replaceOptions().cas(cas)));
		});
		run("counters", () -> {
			var more = IncrementOptions.incrementOptions().initial(10).delta(5);
			check(docs.binary().increment("c", more).content() == 10, "not 10");
			check(docs.binary().increment("c", more).content() == 15, "not 15");
		});
		run("subdocument", () -> {
			docs.mutateIn("k", List.of(MutateInSpec.upsert("a.b", 7).createPath(), MutateInSpec.upsert("x", 1).xattr()));
			var got = docs.lookupIn("k", List.of(LookupInSpec.get("a.b"), LookupInSpec.exists("none"), LookupInSpec.get("x").xattr()));
			check(got.contentAs(0, Integer.class) == 7 && !got.exists(1) && got.contentAs(2, Integer.class) == 1, got);
		});
		run("collections", () -> {
			bucket.collections().createScope("s");
			bucket.collections().createCollection(CollectionSpec.create("c", "s"));
			var other = bucket.scope("s").collection("c");
			other.upsert("k", n("other"));
			check(other.get("k").contentAsObject().get("n").equals("other"), "not other");
			check(bucket.collections().getAllScopes().stream().anyMatch(s -> s.name().equals("s")), "no scope");
		});
		run("durability", () -> docs.upsert("d", n(1),
			UpsertOptions.upsertOptions().durability(DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE)));
		run("expiry", () -> {
			docs.upsert("e", n(1), UpsertOptions.upsertOptions().expiry(Duration.ofHours(1)));
			control("/v1/clock", "{\"advance_ms\":7200000}");
			check(!docs.exists("e").exists(), "exists");
		});
		run("replicas", () -> {
			check(docs.getAnyReplica("k").contentAsObject().get("n").equals(3), "not 3");
			check(docs.getAllReplicas("k").count() == 2, "not 2");
		});
		run("scan", () -> {
			for (int i = 0; i < 20; i++) docs.upsert(String.format("scan::%02d", i), n(i));
			check(docs.scan(ScanType.rangeScan(null, null)).count() >= 20, "too few");
		});
		services();
		run("failover", () -> {
			for (int i = 0; i < 60; i++) {
				if (i == 20) control("/v1/nodes/2/failover", "");
				try {
					docs.upsert("fail::" + i, n(i));
				} catch (RequestCanceledException e) { // it was in flight when its node left
					docs.upsert("fail::" + i, n(i));
				}
			}
			for (int i = 0; i < 60; i++) check(nOf("fail::" + i).equals(i), i);
		});
		cluster.disconnect();
		System.exit(0);
	}

	static void services() {
		run("query", () -> {
			cluster.queryIndexes().createPrimaryIndex("default",
				CreatePrimaryQueryIndexOptions.createPrimaryQueryIndexOptions().ignoreIfExists(true));
			var rows = cluster.query("SELECT d.n, META(d).id FROM `default` AS d WHERE META(d).id LIKE $like ORDER BY d.n DESC LIMIT 2",
				QueryOptions.queryOptions().parameters(JsonObject.create().put("like", "scan::%"))).rowsAsObject();
			check(rows.size() == 2 && rows.get(0).get("n").equals(19), rows);
		});
		run("search", () -> {
			cluster.searchIndexes().upsertIndex(new SearchIndex("find", "default"));
			docs.upsert("f1", JsonObject.create().put("text", "a quick fox").put("kind", "animal"));
			docs.upsert("f2", JsonObject.create().put("text", "a slow fox").put("kind", "animal"));
			docs.upsert("f3", JsonObject.create().put("text", "a stone").put("kind", "thing"));
			var found = cluster.search("find", SearchRequest.create(SearchQuery.match("fox").field("text")),
				SearchOptions.searchOptions().facets(Map.of("kinds", SearchFacet.term("kind", 5))));
			check(found.rows().stream().map(r -> r.id()).sorted().toList().equals(List.of("f1", "f2")), found.rows());
			check(found.facets().get("kinds") != null, found.facets());
		});
		run("views", () -> {
			bucket.viewIndexes().upsertDesignDocument(new DesignDocument("dd",
				Map.of("all", new View("function (doc, meta) { emit(meta.id, doc.n); }"))), DesignDocumentNamespace.PRODUCTION);
			var rows = bucket.viewQuery("dd", "all",
				ViewOptions.viewOptions().key("scan::07").scanConsistency(ViewScanConsistency.REQUEST_PLUS)).rows();
			check(rows.size() == 1 && rows.get(0).valueAs(Integer.class).get() == 7, rows);
		});
		run("management", () -> {
			check(cluster.buckets().getAllBuckets().containsKey("default"), "no bucket");
			cluster.users().upsertUser(new User("u").password("secret1").roles(new Role("data_reader", "default")));
			check(cluster.users().getAllUsers().size() == 1, "not one user");
			cluster.queryIndexes().createIndex("default", "by_n", List.of("n"));
			check(cluster.queryIndexes().getAllIndexes("default").stream().anyMatch(i -> i.name().equals("by_n")), "no index");
			check(cluster.searchIndexes().getAllIndexes().stream().anyMatch(i -> i.name().equals("find")), "no search index");
		});
		run("transactions", () -> {
			cluster.transactions().run(ctx -> {
				ctx.replace(ctx.get(docs, "k"), n("transaction"));
				ctx.insert(docs, "t", n(1));
				check(ctx.query("SELECT RAW 1").rowsAs(Integer.class).equals(List.of(1)), "not 1");
			});
			check(nOf("k").equals("transaction") && docs.exists("t").exists(), "not committed");
		});
	}
}
