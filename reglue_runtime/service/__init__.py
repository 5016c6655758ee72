"""Serve bundles over HTTP, with Starlette, uvicorn, pydantic and prometheus_client.

python -m reglue_runtime.service artifacts/cells/latency/sst2_student/float32
"""
