"""A store that speaks S3 and checks signatures (moto), for the tests of repositories in stores. With the argument
`open` it checks none.

Says one line of JSON when it is ready: port, key_id, secret. Then each line on standard input is a command, and
each answer a line: `bucket NAME`, `put BUCKET KEY FILE`, `get BUCKET KEY`, `delete BUCKET KEY`, `refuse` and `answer`, which say what others get from
now on, and `requests`, which answers with what they have asked since the last time.
"""

import json
import sys
import threading

import boto3
import requests
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

asked = []
refusing = threading.Event()


class Silent(WSGIRequestHandler):
    def log(self, *_):
        pass


def counting(app):
    def serve(environ, start):
        if "muster" in environ.get("HTTP_X_TESTS", "") or "Boto3" in environ.get("HTTP_USER_AGENT", ""):
            return app(environ, start)
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        if refusing.is_set():
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code></Error>"]
        asked.append(f"{line}?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else line)
        return app(environ, start)

    return serve


app = counting(DomainDispatcherApplication(create_backend_app))
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.port}"


def client(service, key_id, secret):
    return boto3.client(
        service, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key_id, aws_secret_access_key=secret
    )


iam = client("iam", "any", "any")
iam.create_user(UserName="tests")
everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="tests", PolicyName="all", PolicyDocument=json.dumps(everything))
key = iam.create_access_key(UserName="tests")["AccessKey"]
s3 = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
# From now on every request must be signed by this user.
if "open" not in sys.argv:
    requests.post(f"{url}/moto-api/reset-auth", data=b"0", headers={"X-Tests": "muster"}).raise_for_status()
access = {"ACL": "public-read"} if "open" in sys.argv else {}
del asked[:]
print(json.dumps({"port": server.port, "key_id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)

for line in sys.stdin:
    word, *given = line.rstrip("\n").split(" ")
    answer = []
    if word == "bucket":
        s3.create_bucket(Bucket=given[0])
    elif word == "put":
        with open(given[2], "rb") as file:
            s3.put_object(Bucket=given[0], Key=given[1], Body=file.read(), **access)
    elif word == "get":
        found = s3.list_objects_v2(Bucket=given[0], Prefix=given[1]).get("Contents", [])
        if any(it["Key"] == given[1] for it in found):
            answer = [s3.get_object(Bucket=given[0], Key=given[1])["Body"].read().decode()]
    elif word == "delete":
        s3.delete_object(Bucket=given[0], Key=given[1])
    elif word == "refuse":
        refusing.set()
    elif word == "answer":
        refusing.clear()
    elif word == "requests":
        answer, asked[:] = list(asked), []
    print(json.dumps(answer), flush=True)
