"""The scenario of interop/run with Couchbase's Python SDK. It prints one line per step."""
import os
import sys
import time
import traceback
from datetime import timedelta

import couchbase.subdocument as SD
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.exceptions import CASMismatchException, DocumentNotFoundException, RequestCanceledException
from couchbase.kv_range_scan import RangeScan
from couchbase.management.collections import CreateCollectionSettings
from couchbase.management.search import SearchIndex
from couchbase.management.users import Role, User
from couchbase.management.views import DesignDocument, DesignDocumentNamespace, View
from couchbase.mutation_state import MutationState
from couchbase.options import (ClusterOptions, IncrementOptions, QueryOptions, ReplaceOptions, ScanOptions,
                               SearchOptions, SignedInt64, DeltaValue, UpsertOptions, ViewOptions)
from couchbase.search import MatchQuery, SearchRequest, TermFacet

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from control import control

LONG = timedelta(seconds=20)
cluster = Cluster(os.environ["CONNECT"], ClusterOptions(
    PasswordAuthenticator(os.environ["LOGIN"], os.environ["PASSWORD"])))
bucket = cluster.bucket("default")
docs = bucket.default_collection()


def connect():
    assert cluster.ping().id


def ready():
    cluster.wait_until_ready(LONG)


def crud():
    docs.upsert("k", {"n": 1})
    assert docs.get("k").content_as[dict] == {"n": 1}
    docs.insert("k2", {"n": 2})
    docs.remove("k2")
    try:
        docs.get("k2")
        raise AssertionError("found")
    except DocumentNotFoundException:
        pass


def cas():
    old = docs.get("k").cas
    docs.replace("k", {"n": 3}, ReplaceOptions(cas=old))
    try:
        docs.replace("k", {"n": 4}, ReplaceOptions(cas=old))
        raise AssertionError("replaced")
    except CASMismatchException:
        pass


def counters():
    more = IncrementOptions(initial=SignedInt64(10), delta=DeltaValue(5))
    assert docs.binary().increment("c", more).content == 10
    assert docs.binary().increment("c", more).content == 15


def subdocument():
    docs.mutate_in("k", [SD.upsert("a.b", 7, create_parents=True), SD.upsert("x", 1, xattr=True)])
    got = docs.lookup_in("k", [SD.get("a.b"), SD.exists("none"), SD.get("x", xattr=True)])
    assert got.content_as[int](0) == 7 and not got.exists(1) and got.content_as[int](2) == 1


def collections():
    manager = bucket.collections()
    manager.create_scope("s")
    manager.create_collection("s", "c", CreateCollectionSettings())
    other = bucket.scope("s").collection("c")
    other.upsert("k", {"n": "other"})
    assert other.get("k").content_as[dict] == {"n": "other"}
    assert any(s.name == "s" for s in manager.get_all_scopes())


def durability():
    safe = UpsertOptions(durability=ServerDurability(DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE))
    assert docs.upsert("d", {"n": 1}, safe).cas


def expiry():
    docs.upsert("e", {"n": 1}, UpsertOptions(expiry=timedelta(hours=1)))
    control("POST", "/v1/clock", {"advance_ms": 7_200_000})
    assert not docs.exists("e").exists


def replicas():
    assert docs.get_any_replica("k").content_as[dict]["n"] == 3
    assert len(list(docs.get_all_replicas("k"))) == 2


def scan():
    for i in range(20):
        docs.upsert(f"scan::{i:02}", {"n": i})
    assert len(list(docs.scan(RangeScan(), ScanOptions()))) >= 20


def query():
    cluster.query("CREATE PRIMARY INDEX IF NOT EXISTS ON `default`").execute()
    rows = list(cluster.query("SELECT d.n, META(d).id FROM `default` AS d WHERE META(d).id LIKE $like ORDER BY d.n DESC LIMIT 2",
                              QueryOptions(named_parameters={"like": "scan::%"})))
    assert rows == [{"n": 19, "id": "scan::19"}, {"n": 18, "id": "scan::18"}], rows


def search():
    cluster.search_indexes().upsert_index(SearchIndex(name="find", source_name="default"))
    docs.upsert("f1", {"text": "a quick fox", "kind": "animal"})
    docs.upsert("f2", {"text": "a slow fox", "kind": "animal"})
    state = MutationState(docs.upsert("f3", {"text": "a stone", "kind": "thing"}))
    found = cluster.search("find", SearchRequest.create(MatchQuery("fox", field="text")), SearchOptions(
        facets={"kinds": TermFacet("kind", 5)}, consistent_with=state))
    assert sorted(row.id for row in found.rows()) == ["f1", "f2"]
    assert found.facets()["kinds"].terms[0].count == 2


def views():
    design = DesignDocument("dd", {"all": View(map="function (doc, meta) { emit(meta.id, doc.n); }")})
    bucket.view_indexes().upsert_design_document(design, DesignDocumentNamespace.PRODUCTION)
    # This SDK does not send scan_consistency, so the first query only brings the index up to date.
    for _ in range(2):
        values = [row.value for row in bucket.view_query("dd", "all", ViewOptions(key="scan::07")).rows()]
    assert values == [7], values


def management():
    assert "default" in [b.name for b in cluster.buckets().get_all_buckets()]
    cluster.users().upsert_user(User(username="u", password="secret1", roles=[Role("data_reader", bucket="default")]))
    assert [u.user.username for u in cluster.users().get_all_users()] == ["u"]
    cluster.query_indexes().create_index("default", "by_n", ["n"])
    assert "by_n" in [i.name for i in cluster.query_indexes().get_all_indexes("default")]
    assert "find" in [i.name for i in cluster.search_indexes().get_all_indexes()]


def transactions():
    def work(ctx):
        ctx.replace(ctx.get(docs, "k"), {"n": "transaction"})
        ctx.insert(docs, "t", {"n": 1})
        assert list(ctx.query("SELECT RAW 1").rows()) == [1]
    cluster.transactions.run(work)
    assert docs.get("k").content_as[dict] == {"n": "transaction"} and docs.exists("t").exists


def failover():
    for i in range(60):
        if i == 20:
            control("POST", "/v1/nodes/2/failover")
        try:
            docs.upsert(f"fail::{i}", {"n": i})
        except RequestCanceledException:  # it was in flight when its node left
            docs.upsert(f"fail::{i}", {"n": i})
    assert all(docs.get(f"fail::{i}").content_as[dict]["n"] == i for i in range(60))


STEPS = [connect, ready, crud, cas, counters, subdocument, collections, durability, expiry, replicas, scan, query, search,
         views, management, transactions, failover]
for step in STEPS:
    try:
        step()
        print(step.__name__, "ok", flush=True)
    except Exception as e:  # the next step may still work
        traceback.print_exc()
        print(step.__name__, "FAIL", " ".join(str(e or repr(e)).split())[:300], flush=True)
cluster.close()
