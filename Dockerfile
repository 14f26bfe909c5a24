# Two images: `docker build --target server .` and `docker build --target optimizer .`
# The server starts no JVM and so carries no Java; whoever runs jobs does. deploy/compose and deploy/helm run them. They
# need no root and write to volumes and /tmp only, so their root file system may be read-only.

FROM node:20-slim AS console
WORKDIR /src
COPY web/package.json web/package-lock.json web/.npmrc web/
RUN npm --prefix web ci --no-audit --no-fund
COPY web web
# The console offers the dashboard and the alerts as downloads.
COPY deploy/grafana deploy/grafana
COPY deploy/prometheus deploy/prometheus
RUN npm --prefix web run build

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /src
RUN pip install --no-cache-dir "hatchling>=1.27"
COPY pyproject.toml build_console.py LICENSE README.md ./
# Two distributions: the client, and the server that depends on it.
COPY catalog catalog
COPY server server
COPY optimizer optimizer
COPY firn firn
COPY migrations migrations
COPY --from=console /src/web/dist web/dist
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels ./firn .

FROM python:3.11-slim-bookworm AS base
RUN useradd --create-home --uid 10001 firn && install -d -m 700 -o firn -g firn /data /metastore /warehouse /run/firn
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /data

FROM base AS server
RUN --mount=type=bind,source=requirements-server.lock,target=/tmp/server.lock \
    pip install --require-hashes -r /tmp/server.lock
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels pip install --no-deps /wheels/*.whl
USER 10001
VOLUME /data
ENV FIRN_DATA_DIR=/data FIRN_PORT=8630
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", \
  "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"FIRN_PORT\"]}/readyz', timeout=4)"]
ENTRYPOINT ["firn"]
CMD ["serve"]

FROM base AS optimizer
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,source=requirements-optimizer.lock,target=/tmp/optimizer.lock \
    pip install --require-hashes -r /tmp/optimizer.lock
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels pip install --no-deps /wheels/*.whl
# Files in S3 need the bundle on Spark's own class path.
RUN XDG_CACHE_HOME=/tmp/jars python -c "import shutil; from firn.embedded.pyspark_jars import pyspark_jars; \
    from firn.spark.jars import AWS_BUNDLE, fetch; shutil.copy(fetch(AWS_BUNDLE), pyspark_jars())" && rm -rf /tmp/jars
USER 10001
# Into the image now, so that an optimizer starts without a way to Maven Central, also one that runs streams.
RUN python -m firn.spark.jars && python -c "from firn.spark.jars import spark_conf; spark_conf(kafka=True)"
ENTRYPOINT ["firn", "optimizer"]
