# A worker: builds and evaluations in bubblewrap boxes, and with `--target gpu` training and serving on NVIDIA GPUs. Needs
# `--init --security-opt seccomp=unconfined --security-opt systempaths=unconfined --cap-add SYS_ADMIN` for the boxes, as in
# infra/compose.yaml; on Kubernetes less: infra/kubernetes.md. Build from the repository root.
FROM python:3.11-slim-bookworm AS base

ENV PYTHONUNBUFFERED=1 \
    WORKER_DATA=/data

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap gcc libc6-dev libseccomp2 skopeo util-linux \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10002 --create-home worker

WORKDIR /app
COPY infra/docker/worker.lock ./
RUN pip install --no-cache-dir --require-hashes -r worker.lock
COPY infra/torch-constraints.txt ./infra/torch-constraints.txt

# CUDA's libraries come with the wheels of torch and vLLM that are pinned there (PyPI's are CUDA 13.0's: driver 580 or newer), and the
# driver's from the host by NVIDIA's container toolkit. So the base is the same Python as everywhere, not an image of CUDA with another one.
FROM base AS gpu
# For an older driver: "--torch-backend=cu126"; a mirror: "--index-url https://...".
ARG CUDA_OPTIONS=""
# hadolint ignore=SC2086
RUN uv pip install --system --no-cache --compile-bytecode $CUDA_OPTIONS -c infra/torch-constraints.txt torch liger-kernel \
    && uv venv --python "$(command -v python)" /opt/vllm \
    && uv pip install --python /opt/vllm --no-cache --compile-bytecode $CUDA_OPTIONS -c infra/torch-constraints.txt vllm
COPY pyproject.toml README.md LICENSE ./
COPY sdk ./sdk
COPY workers ./workers
RUN pip install --no-cache-dir --no-deps ./sdk && python -m compileall -q workers
ENV WORKER_VLLM_PYTHON=/opt/vllm/bin/python \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
VOLUME /data
CMD ["python", "-m", "workers"]

FROM base AS cpu
# How uv finds torch. Without the first, PyPI's wheel brings gigabytes of CUDA; a mirror: "--index-url https://...".
ARG TORCH_OPTIONS="--torch-backend=cpu"
# hadolint ignore=SC2086
RUN uv pip install --system --no-cache --compile-bytecode $TORCH_OPTIONS -c infra/torch-constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY sdk ./sdk
COPY workers ./workers
RUN pip install --no-cache-dir --no-deps ./sdk && python -m compileall -q workers
VOLUME /data
CMD ["python", "-m", "workers"]
