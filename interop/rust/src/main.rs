//! The scenario of interop/run with Couchbase's Rust SDK. It prints one line per step.
//! The SDK has neither range scans nor views nor transactions.

use couchbase::authenticator::PasswordAuthenticator;
use couchbase::bucket::Bucket;
use couchbase::cluster::Cluster;
use couchbase::collection::Collection;
use couchbase::durability_level::DurabilityLevel;
use couchbase::error::ErrorKind;
use couchbase::get_replica_strategy::{GetReplicaStrategy, ReplicaIndex};
use couchbase::management::collections::collection_settings::CreateCollectionSettings;
use couchbase::management::search::index::SearchIndex;
use couchbase::management::users::user::{Role, User};
use couchbase::options::cluster_options::ClusterOptions;
use couchbase::options::kv_binary_options::IncrementOptions;
use couchbase::options::kv_options::{ReplaceOptions, UpsertOptions};
use couchbase::options::query_options::QueryOptions;
use couchbase::search::queries::{MatchQuery, Query};
use couchbase::search::request::SearchRequest;
use couchbase::subdoc::lookup_in_specs::{GetSpecOptions, LookupInSpec};
use couchbase::subdoc::mutate_in_specs::{MutateInSpec, UpsertSpecOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use std::env::var;
use std::io::{Read, Write};
use std::time::Duration;

type Done = Result<(), Box<dyn std::error::Error>>;

fn check(ok: bool, what: &str) -> Done {
    if ok { Ok(()) } else { Err(what.into()) }
}

fn control(path: &str, body: &str) -> Done {
    let api = var("CONTROL")?;
    let host = api.trim_start_matches("http://");
    let mut c = std::net::TcpStream::connect(host)?;
    write!(c, "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    c.read_to_string(&mut answer)?;
    check(answer.starts_with("HTTP/1.1 200"), &answer)
}

struct Scenario {
    cluster: Cluster,
    bucket: Bucket,
    docs: Collection,
}

impl Scenario {
    async fn n(&self, key: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Ok(self.docs.get(key, None).await?.content_as::<Value>()?["n"].clone())
    }

    async fn step(&self, name: &str) -> Done {
        let (cluster, bucket, docs) = (&self.cluster, &self.bucket, &self.docs);
        match name {
            "connect" => {
                cluster.ping(None).await?;
            }
            "ready" => {
                tokio::time::timeout(Duration::from_secs(20), cluster.wait_until_ready(None)).await??;
                tokio::time::timeout(Duration::from_secs(20), bucket.wait_until_ready(None)).await??;
            }
            "crud" => {
                docs.upsert("k", json!({"n": 1}), None).await?;
                check(self.n("k").await? == 1, "not 1")?;
                docs.insert("k2", json!({"n": 2}), None).await?;
                docs.remove("k2", None).await?;
                let gone = docs.get("k2", None).await;
                check(gone.is_err_and(|e| matches!(e.kind(), ErrorKind::DocumentNotFound)), "found")?;
            }
            "cas" => {
                let cas = docs.get("k", None).await?.cas();
                docs.replace("k", json!({"n": 3}), ReplaceOptions::new().cas(cas)).await?;
                let late = docs.replace("k", json!({"n": 4}), ReplaceOptions::new().cas(cas)).await;
                check(late.is_err_and(|e| matches!(e.kind(), ErrorKind::CasMismatch)), "replaced")?;
            }
            "counters" => {
                for want in [10, 15] {
                    let more = IncrementOptions::new().initial(10).delta(5);
                    check(docs.binary().increment("c", more).await?.content() == want, "wrong count")?;
                }
            }
            "subdocument" => {
                let specs = [
                    MutateInSpec::upsert("a.b", 7, UpsertSpecOptions::new().create_path(true))?,
                    MutateInSpec::upsert("x", 1, UpsertSpecOptions::new().xattr(true))?,
                ];
                docs.mutate_in("k", &specs, None).await?;
                let specs = [
                    LookupInSpec::get("a.b", None),
                    LookupInSpec::exists("none", None),
                    LookupInSpec::get("x", GetSpecOptions::new().xattr(true)),
                ];
                let got = docs.lookup_in("k", &specs, None).await?;
                let ok = got.content_as::<i32>(0)? == 7 && !got.exists(1)? && got.content_as::<i32>(2)? == 1;
                check(ok, "wrong paths")?;
            }
            "collections" => {
                bucket.collections().create_scope("s", None).await?;
                bucket.collections().create_collection("s", "c", CreateCollectionSettings::new(), None).await?;
                let other = bucket.scope("s").collection("c");
                other.upsert("k", json!({"n": "other"}), None).await?;
                check(other.get("k", None).await?.content_as::<Value>()?["n"] == "other", "not other")?;
                let scopes = bucket.collections().get_all_scopes(None).await?;
                check(scopes.iter().any(|s| s.name() == "s"), "no scope")?;
            }
            "durability" => {
                let safe = UpsertOptions::new().durability_level(DurabilityLevel::MAJORITY_AND_PERSIST_ACTIVE);
                docs.upsert("d", json!({"n": 1}), safe).await?;
            }
            "expiry" => {
                let brief = UpsertOptions::new().expiry(Duration::from_secs(3600));
                docs.upsert("e", json!({"n": 1}), brief).await?;
                control("/v1/clock", r#"{"advance_ms":7200000}"#)?;
                check(!docs.exists("e", None).await?.exists(), "exists")?;
            }
            "replicas" => {
                let first = GetReplicaStrategy::from_index(ReplicaIndex::First, None);
                let got = docs.get_replica("k", first, None).await?;
                check(got.is_replica() && got.content_as::<Value>()?["n"] == 3, "not 3")?;
            }
            "query" => self.query().await?,
            "search" => self.search().await?,
            "management" => {
                let buckets = cluster.buckets().get_all_buckets(None).await?;
                check(buckets.iter().any(|b| b.name == "default"), "no bucket")?;
                let roles = vec![Role::new("data_reader").bucket("default")];
                cluster.users().upsert_user(User::new("u", "U", roles).password("secret1"), None).await?;
                check(cluster.users().get_all_users(None).await?.len() == 1, "not one user")?;
                docs.query_indexes().create_index("by_n", vec!["n".to_string()], None).await?;
                let indexes = docs.query_indexes().get_all_indexes(None).await?;
                check(indexes.iter().any(|i| i.name() == "by_n"), "no index")?;
            }
            "failover" => {
                for i in 0..60 {
                    if i == 20 {
                        control("/v1/nodes/2/failover", "")?;
                    }
                    let id = format!("fail::{i}");
                    if docs.upsert(id.clone(), json!({"n": i}), None).await.is_err() {
                        docs.upsert(id, json!({"n": i}), None).await?; // it was in flight when its node left
                    }
                }
                for i in 0..60 {
                    check(self.n(&format!("fail::{i}")).await? == i, "lost")?;
                }
            }
            _ => return Err("none".into()),
        }
        Ok(())
    }

    async fn query(&self) -> Done {
        for i in 0..20 {
            self.docs.upsert(format!("scan::{i:02}"), json!({"n": i}), None).await?;
        }
        self.cluster.query("CREATE PRIMARY INDEX IF NOT EXISTS ON `default`", None).await?;
        let like = QueryOptions::new().add_named_parameter("like", "scan::%")?;
        let statement = "SELECT d.n, META(d).id FROM `default` AS d WHERE META(d).id LIKE $like ORDER BY d.n DESC LIMIT 2";
        let mut found = self.cluster.query(statement, like).await?;
        let rows: Vec<Result<Value, _>> = found.rows().collect().await;
        let rows: Vec<Value> = rows.into_iter().collect::<Result<_, _>>()?;
        check(rows == [json!({"n": 19, "id": "scan::19"}), json!({"n": 18, "id": "scan::18"})], &format!("{rows:?}"))
    }

    async fn search(&self) -> Done {
        let scope = self.bucket.scope("_default");
        let index = SearchIndex::new("find", "fulltext-index")
            .source_name("default".to_string())
            .source_type("couchbase".to_string());
        scope.search_indexes().upsert_index(index, None).await?;
        for (key, text) in [("f1", "a quick fox"), ("f2", "a slow fox"), ("f3", "a stone")] {
            self.docs.upsert(key, json!({"text": text}), None).await?;
        }
        let fox = Query::Match(MatchQuery::new("fox").field("text".to_string()));
        let mut found = scope.search("find", SearchRequest::with_search_query(fox), None).await?;
        let mut ids = vec![];
        let mut rows = Box::pin(found.rows());
        while let Some(row) = rows.next().await {
            ids.push(row?.id);
        }
        ids.sort();
        check(ids == ["f1", "f2"], &format!("{ids:?}"))
    }
}

#[tokio::main]
async fn main() -> Done {
    let login = PasswordAuthenticator::new(var("LOGIN")?, var("PASSWORD")?);
    let cluster = Cluster::connect(var("CONNECT")?, ClusterOptions::new(login.into())).await?;
    let bucket = cluster.bucket("default");
    let docs = bucket.default_collection();
    let all = Scenario { cluster, bucket, docs };
    for name in [
        "connect", "ready", "crud", "cas", "counters", "subdocument", "collections", "durability", "expiry", "replicas",
        "scan", "query", "search", "views", "management", "transactions", "failover",
    ] {
        match all.step(name).await {
            Ok(()) => println!("{name} ok"),
            Err(e) if e.to_string() == "none" => println!("{name} none"),
            Err(e) => println!("{name} FAIL {}", e.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    Ok(())
}
