# A program that gives an LLM the skills as tools: python3 agent.py. OPENAI_BASE_URL, OPENAI_API_KEY and MODEL name an API like OpenAI's;
# BRIDGE_AUTHORIZATION, if set, is a header such as "Bearer <key>".
import hashlib, json, os, sys, time, urllib.error, urllib.request, uuid
needed = {"OPENAI_BASE_URL": "the URL of an API like OpenAI's, such as https://api.openai.com/v1", "MODEL": "the name of a model there"}
for name, what in needed.items(): os.environ.get(name) or sys.exit(f"{name} is not set: {what}")
task = "Turn this Markdown into HTML: # Hello"
conversation, messages = uuid.uuid4(), [{"role": "user", "content": task}]
def post(url, body, variable, scheme=""):
    headers = {"Authorization": scheme + os.environ[variable]} if os.environ.get(variable) else {}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    for pause in 1, 2, 4, 8, 0:
        try: return json.load(urllib.request.urlopen(request))
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            if error.code != 401 and '"jsonrpc"' in text: return json.loads(text)
            sys.exit(f"{url}: {error}{f'; is {variable} right?' if error.code in (401, 403) else ''} {text}")
        except OSError as error:  # there is no connection, or it was lost
            time.sleep(pause) if pause else sys.exit(f"{url}: {error}")
def bridge(method, **params):
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = post("http://localhost:8080/rpc", call, "BRIDGE_AUTHORIZATION")
    return answer.get("result") or answer["error"]  # data.next of an error says what to do
def execute(call):
    try:
        args = json.loads(call["function"].get("arguments") or "{}")
    except (TypeError, ValueError) as error:
        return {"error": f"the arguments are not JSON: {error}"}
    # One key for each tool call: with it, a request can be repeated and does not execute the skill twice.
    digest = hashlib.sha256(f"{conversation} {len(messages)} {call['id']}".encode()).digest()
    key = str(uuid.UUID(bytes=digest[:16], version=4))
    run = bridge("execute_skill", name=call["function"]["name"], args=args, idempotency_key=key, wait_ms=20000)
    while run.get("status") == "running" or (run.get("error") or run.get("data") or {}).get("next") == "follow_run":
        time.sleep(run.get("retry_after_ms", 1000) / 1000)
        run = bridge("get_run", run_token=run.get("run_token") or run["data"].get("run_token"))
    return run
tools = bridge("list_skills", detail="tools", format="openai", limit=128)
if tools.get("next_cursor"):  # there are more than the model's API takes: those with words of the task
    found = bridge("list_skills", detail="tools", format="openai", limit=128, query=task)
    tools = found if found.get("tools") else tools
tools.get("tools") or sys.exit(f"there are no tools: {tools}")
while messages[-1]["role"] != "assistant":
    request = {"model": os.environ["MODEL"], "messages": messages, "tools": tools["tools"]}
    answer = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", request, "OPENAI_API_KEY", "Bearer ")
    messages.append(answer["choices"][0]["message"])
    for call in messages[-1].get("tool_calls") or []:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(execute(call))})
print(messages[-1]["content"])
