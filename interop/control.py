"""Requests to the control API of the mock."""
import json
import os
import urllib.request


def control(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["CONTROL"] + path, data=data, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
