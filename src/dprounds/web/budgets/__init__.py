"""The ledger over HTTP: ``dprounds serve --ledger URL``.

| file | what it holds |
|---|---|
| `access.py` | who may ask: tokens, scopes, limits, and who was turned away |
| `routes.py` | what can be asked, in which words, and what answers it |
| `prices.py` | what jobs cost, computed in the page's workers, which can be stopped |
| `endpoints.py` | the way of a request: admitted, read, answered in a thread |
| `description.py` | the same as OpenAPI says it |

Needs the extra ``ledger`` in addition to ``web``.
"""
