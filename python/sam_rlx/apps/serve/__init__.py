"""What ``sam-rlx serve`` offers over HTTP: a page, and the protocols of annotation tools.

``GET /``                       the page, which talks to its own session over ``/session``
``GET /health``                 ``{"status": "UP", ...}``
``POST /api/generate``          osam's JSON
``GET /v1/models``, ``/v1/models/ID/info``, ``POST /v1/predict``    X-AnyLabeling's server protocol
``POST /setup``, ``/predict``, ``/webhook``    Label Studio's backend, if its address is given

Nothing here reads or writes files by what a request says. `guard` refuses what has no token, comes
from another site, or is too large; `engine` computes; the other modules translate.
"""
