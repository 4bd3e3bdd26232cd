"""The same stack with nothing behind it: a request is decoded, an answer of a decision's form is encoded."""

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from belated.api.types import DecisionRequest, DecisionResponse

_decoder = msgspec.json.Decoder(DecisionRequest)


async def echo(request: Request) -> Response:
    asked = _decoder.decode(await request.body())
    answer = DecisionResponse(asked.id or "", 1, "blue", 0.25)
    return Response(msgspec.json.encode(answer), media_type="application/json")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/experiments/{name}/decisions", echo, methods=["POST"])])
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
