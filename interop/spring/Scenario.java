// The scenario of interop/run with Spring Data Couchbase. It prints one line per step, "none" for what Spring Data has no
// call for: counters, search, views and management are those of the Java SDK below it.

import com.couchbase.client.core.msg.kv.DurabilityLevel;
import com.couchbase.client.java.query.QueryScanConsistency;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.List;
import java.util.stream.StreamSupport;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.couchbase.config.AbstractCouchbaseConfiguration;
import org.springframework.data.couchbase.core.CouchbaseTemplate;
import org.springframework.data.couchbase.core.OperationCancellationException;
import org.springframework.data.couchbase.core.mapping.Document;
import org.springframework.data.couchbase.repository.CouchbaseRepository;
import org.springframework.data.couchbase.repository.Query;
import org.springframework.data.couchbase.repository.config.EnableCouchbaseRepositories;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.data.couchbase.repository.ScanConsistency;
import org.springframework.data.couchbase.transaction.CouchbaseCallbackTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

public class Scenario {
	@Document
	public static class Person {
		@Id public String id;
		@Version public long version;
		public String name;
		public int age;

		public static Person of(String id, String name, int age) {
			var p = new Person();
			p.id = id;
			p.name = name;
			p.age = age;
			return p;
		}
	}

	@ScanConsistency(query = QueryScanConsistency.REQUEST_PLUS)
	public interface People extends CouchbaseRepository<Person, String> {
		List<Person> findByName(String name);

		List<Person> findByAgeGreaterThanOrderByAgeDesc(int age);

		long countByName(String name);

		boolean existsByName(String name);

		@Query("#{#n1ql.selectEntity} WHERE #{#n1ql.filter} AND age BETWEEN $1 AND $2")
		List<Person> between(int from, int to);

		void deleteByName(String name);
	}

	@EnableCouchbaseRepositories(considerNestedRepositories = true)
	public static class Config extends AbstractCouchbaseConfiguration {
		@Override public String getConnectionString() { return System.getenv("CONNECT"); }

		@Override public String getUserName() { return System.getenv("LOGIN"); }

		@Override public String getPassword() { return System.getenv("PASSWORD"); }

		@Override public String getBucketName() { return "default"; }
	}

	interface Step { void run() throws Exception; }

	static void check(boolean ok, Object what) {
		if (!ok) throw new AssertionError(what);
	}

	static void run(String name, Step step) {
		try {
			step.run();
			System.out.println(name + " ok");
		} catch (Throwable e) {
			e.printStackTrace();
			System.out.println(name + " FAIL " + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
		}
	}

	static void control(String path, String body) throws Exception {
		var request = HttpRequest.newBuilder(URI.create(System.getenv("CONTROL") + path))
			.POST(HttpRequest.BodyPublishers.ofString(body)).build();
		var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
		check(answer.statusCode() == 200, answer.body());
	}

	static String names(Iterable<Person> all) {
		return String.join(",", StreamSupport.stream(all.spliterator(), false).map(p -> p.id).sorted().toList());
	}

	static AnnotationConfigApplicationContext context;

	public static void main(String[] args) {
		run("connect", () -> context = new AnnotationConfigApplicationContext(Config.class));
		var people = context.getBean(People.class);
		var template = context.getBean(CouchbaseTemplate.class);
		run("ready", () -> {
			template.getCouchbaseClientFactory().getCluster().waitUntilReady(Duration.ofSeconds(20));
			template.getCouchbaseClientFactory().getBucket().waitUntilReady(Duration.ofSeconds(20));
		});
		run("crud", () -> {
			people.save(Person.of("a", "Ann", 30));
			people.saveAll(List.of(Person.of("b", "Bob", 40), Person.of("c", "Bob", 50)));
			check(people.findById("a").get().name.equals("Ann"), "findById");
			check(people.existsById("b") && !people.existsById("x"), "existsById");
			check(names(people.findAllById(List.of("a", "c"))).equals("a,c"), "findAllById");
			check(template.findById(Person.class).one("c").age == 50, "template");
		});
		run("cas", () -> {
			var p = people.findById("a").get();
			p.age = 31;
			people.save(p);
			p.version = 1;
			try {
				people.save(p);
			} catch (org.springframework.dao.OptimisticLockingFailureException e) {
				return;
			}
			throw new AssertionError("saved");
		});
		run("query", () -> {
			check(names(people.findByName("Bob")).equals("b,c"), "findByName");
			check(people.findByAgeGreaterThanOrderByAgeDesc(30).get(0).id.equals("c"), "order");
			check(people.countByName("Bob") == 2 && people.existsByName("Ann"), "countBy, existsBy");
			check(names(people.between(31, 40)).equals("a,b"), "@Query");
			check(names(people.findAll()).equals("a,b,c") && people.count() == 3, "findAll, count");
			check(people.findAll(Sort.by("age").descending()).iterator().next().id.equals("c"), "sort");
			check(people.findAll(PageRequest.of(1, 2, Sort.by("age"))).getContent().get(0).id.equals("c"), "page");
			check(template.findByQuery(Person.class).all().size() == 3, "template");
			people.deleteByName("Ann");
			check(!people.existsByName("Ann"), "deleteBy");
			people.deleteAll();
			check(people.count() == 0, "deleteAll");
		});
		run("subdocument", () -> {
			var p = template.insertById(Person.class).one(Person.of("sub", "Sue", 20));
			p.age = 21;
			template.mutateInById(Person.class).withUpsertPaths("age").one(p);
			check(template.findById(Person.class).project(new String[]{"age"}).one("sub").age == 21, "not 21");
		});
		run("collections", () -> {
			var bucket = template.getCouchbaseClientFactory().getBucket();
			bucket.collections().createScope("s");
			bucket.collections().createCollection("s", "c");
			template.insertById(Person.class).inScope("s").inCollection("c").one(Person.of("sub", "Other", 1));
			var other = template.findById(Person.class).inScope("s").inCollection("c").one("sub");
			check(other.name.equals("Other") && template.findById(Person.class).one("sub").name.equals("Sue"), other.name);
		});
		run("durability", () -> template.upsertById(Person.class).withDurability(DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE)
			.one(Person.of("d", "Dan", 1)));
		run("expiry", () -> {
			template.upsertById(Person.class).withExpiry(Duration.ofHours(1)).one(Person.of("e", "Eve", 1));
			control("/v1/clock", "{\"advance_ms\":7200000}");
			check(!people.existsById("e"), "exists");
		});
		run("replicas", () -> check(template.findFromReplicasById(Person.class).any("sub").age == 21, "not 21"));
		run("scan", () -> {
			for (int i = 0; i < 20; i++) template.upsertById(Person.class).one(Person.of(String.format("scan::%02d", i), "x", i));
			check(template.rangeScan(Person.class).rangeScan("scan::05", "scan::14").count() == 10, "not 10");
		});
		run("transactions", () -> {
			var manager = context.getBean(CouchbaseCallbackTransactionManager.class);
			new TransactionTemplate(manager).executeWithoutResult(status -> {
				var p = people.findById("sub").get();
				p.age = 22;
				people.save(p);
				people.save(Person.of("t", "Tom", 1));
			});
			check(people.findById("sub").get().age == 22 && people.existsById("t"), "not committed");
			try {
				new TransactionTemplate(manager).executeWithoutResult(status -> {
					people.save(Person.of("u", "Una", 1));
					throw new IllegalStateException("no");
				});
			} catch (RuntimeException e) {
				check(!people.existsById("u"), "not rolled back");
				return;
			}
			throw new AssertionError("committed");
		});
		run("failover", () -> {
			for (int i = 0; i < 60; i++) {
				if (i == 20) control("/v1/nodes/2/failover", "");
				try {
					template.upsertById(Person.class).one(Person.of("fail::" + i, "x", i));
				} catch (OperationCancellationException e) { // it was in flight when its node left
					template.upsertById(Person.class).one(Person.of("fail::" + i, "x", i));
				}
			}
			for (int i = 0; i < 60; i++) check(people.findById("fail::" + i).get().age == i, i);
		});
		for (var step : List.of("counters", "search", "views", "management")) System.out.println(step + " none");
		context.close();
		System.exit(0);
	}
}
