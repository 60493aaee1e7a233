# docker build --target service  -t rankcast .            the service
# docker build --target rebuild  -t rankcast-rebuild .    the same with Java and Spark, for rebuilds

# A tag is another image from one week to the next. Whoever needs the same one again gives BASE by digest, as the workflow of
# releases does: `make image BASE="$(make base-image)"` asks the registry for the digest of today. None is written here:
# one that nobody renews keeps the flaws of its day.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
ARG BASE
LABEL org.opencontainers.image.base.name=$BASE
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    VIRTUAL_ENV=/opt/venv \
    PATH=/opt/venv/bin:$PATH \
    RANKCAST_CACHE=/opt/rankcast-cache
WORKDIR /opt/rankcast

# The layers by how seldom they change: the locked packages, the project, its kernels.
FROM base AS dependencies
COPY requirements/build.lock requirements/postgres.lock requirements/
RUN python -m venv $VIRTUAL_ENV \
    && pip install --no-cache-dir --require-hashes -r requirements/build.lock \
    && pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements/postgres.lock

# The compiled modules are part of the image: PYTHONDONTWRITEBYTECODE would have every start compile them again.
FROM dependencies AS installed
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --config-settings editable_mode=compat -e . -e client \
    && python -m compileall -q app bench client formats indexes spark_jobs

# For any machine of the architecture; a service uses the best of them that its processor can run.
FROM installed AS kernels
RUN rankcast warm --target portable

FROM installed AS spark
RUN pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements/spark.lock

FROM base AS runtime
RUN useradd --system --uid 10001 --home-dir /var/lib/rankcast --create-home rankcast \
    && install -d -o rankcast -g rankcast /var/lib/rankcast/data
ENV RANKCAST_HOST=0.0.0.0 \
    RANKCAST_PORT=8000 \
    RANKCAST_DATA=/var/lib/rankcast/data
COPY --from=kernels --chown=rankcast $RANKCAST_CACHE $RANKCAST_CACHE
USER rankcast
VOLUME /var/lib/rankcast/data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["rankcast"]
CMD ["serve"]

FROM runtime AS rebuild
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=spark /opt/venv /opt/venv
COPY --from=spark /opt/rankcast /opt/rankcast
USER rankcast

FROM runtime AS service
COPY --from=installed /opt/venv /opt/venv
COPY --from=installed /opt/rankcast /opt/rankcast
