"""An injected failure, a rebalance in the middle, a scripted query, and a look at what was sent.

Run it with COUCHCORE naming the couchcore command:  python3 -m unittest test_orders.py
"""
import json, os, subprocess, unittest, urllib.request
from datetime import timedelta
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.options import ClusterOptions


class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [os.environ.get("COUCHCORE", "couchcore"), "mock", "--nodes", "2", "--exit-on-stdin-close"]
        cls.mock = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.ready = json.loads(cls.mock.stdout.readline())
        login = PasswordAuthenticator(cls.ready["username"], cls.ready["password"])
        cls.cluster = Cluster(cls.ready["connection_string"], ClusterOptions(login))
        cls.cluster.wait_until_ready(timedelta(seconds=30))
        cls.orders = cls.cluster.bucket("default").default_collection()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()
        cls.mock.communicate()

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.ready["control_api"] + path, data=data, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def test_orders(self):
        # The first two writes of this key fail for now; the client tries again.
        fault = self.control("POST", "/v1/injections", {
            "match": {"opcodes": ["SET"], "key": "order::1", "times": 2}, "fault": {"status": "ETMPFAIL"}})
        self.orders.upsert("order::1", {"n": 1})
        self.assertEqual(2, self.control("GET", "/v1/injections/" + fault["id"])["fired"])

        # A node joins while documents are written.
        for i in range(100):
            if i == 50:
                self.control("POST", "/v1/nodes")
                self.control("POST", "/v1/cluster/rebalance")
            self.orders.upsert(f"order::{i}", {"n": i})
        self.assertEqual(99, self.orders.get("order::99").content_as[dict]["n"])

        self.control("POST", "/v1/scripts", {
            "match": {"service": "query", "statement": "FROM orders"}, "answers": [{"rows": [{"total": 42}]}]})
        self.assertEqual([{"total": 42}], list(self.cluster.query("SELECT total FROM orders")))

        # Two failures, one success, and one write more in the loop.
        sent = self.control("GET", "/v1/logs/frames?key=order::1&opcodes=SET")["items"]
        self.assertEqual([{"n": 1}] * 4, [json.loads(frame["value"]) for frame in sent])


if __name__ == "__main__":
    unittest.main()
