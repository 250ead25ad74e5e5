# A receiver of call-backs, with Python and no packages. WEBHOOK_SECRET is the token of the calls (whsec_...), PORT the port.
import base64, hashlib, hmac, http.server, json, os, time

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
seen = set()  # keep it in a database, for a day


def valid(headers, body):
    signed = headers["webhook-id"] + "." + headers["webhook-timestamp"] + "."
    mac = hmac.new(KEY, signed.encode() + body, hashlib.sha256)
    expected = "v1," + base64.b64encode(mac.digest()).decode()
    young = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return young and any(hmac.compare_digest(expected, s) for s in headers["webhook-signature"].split())


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            ok = valid(self.headers, body)
        except (TypeError, ValueError, AttributeError):
            ok = False
        self.send_response(204 if ok else 401)
        self.end_headers()
        if ok and self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            data = json.loads(body)["data"]
            print(data["skill"], data.get("result", data.get("error")), flush=True)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
