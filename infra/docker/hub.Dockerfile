# The hub: web server, sweeper and migrations, one image. Build from the repository root:
#   docker build -f infra/docker/hub.Dockerfile -t environments-hub .
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HUB_DATA=/data

WORKDIR /app
COPY infra/docker/hub.lock ./
RUN pip install --no-cache-dir --require-hashes -r hub.lock
COPY pyproject.toml README.md LICENSE manage.py ./
COPY sdk ./sdk
COPY hub ./hub
COPY frontend ./frontend
COPY SECURITY.md ./
COPY infra/*.md ./infra/
RUN pip install --no-cache-dir --no-deps ./sdk \
    && python -m compileall -q hub \
    && useradd --uid 10001 --create-home hub \
    && install -d -o hub -g hub /data

USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=5)"]
CMD ["uvicorn", "hub.config.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--workers", "2", "--lifespan", "off", "--no-access-log"]
