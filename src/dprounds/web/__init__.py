"""The page: the planner in the browser, and the JSON that it is made of.

`server.serve` starts it. Inside:

| file | what it holds |
|---|---|
| `asked.py` | which words each question takes, and its answer as JSON holds it; runs in a worker |
| `reading.py` | the words and numbers of a request, strictly read |
| `worker.py`, `pool.py` | processes that compute, and can be stopped when they take too long |
| `guard.py` | what every request must pass and every response must carry |
| `description.py` | the OpenAPI description |
| `budgets/` | the ledger over HTTP, where one is served |
| `app.py`, `server.py` | the routes; the port, the signals |
| `static/` | the page itself |

Needs the extra ``web``: FastAPI and Uvicorn. Nothing is fetched from elsewhere, neither by the server nor by the page.
"""
