"""Serve bundles over HTTP, with Starlette, uvicorn, pydantic and prometheus_client.

python -m reglue_runtime.service artifacts/export/sst2_bilstm/float32
"""
