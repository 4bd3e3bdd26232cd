# The service in a container. Build it in the checkout: docker build --tag belated .

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/belated && /opt/belated/bin/pip install --no-cache-dir --no-compile '.[service]'
# Layers may keep times to the second only, and machine code is cached for the exact time of its source.
RUN find /opt/belated -name '*.py' -exec touch --date=2000-01-01 {} + && /opt/belated/bin/python -m compileall -q /opt/belated

FROM python:3.13-slim
COPY --from=build /opt/belated /opt/belated
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/belated belated \
    && mkdir /var/cache/belated && chown belated: /var/cache/belated
ENV PATH=/opt/belated/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/belated \
    BELATED_STORE=sqlite:////var/lib/belated/ledger.db
USER 10001
WORKDIR /var/lib/belated
# Compiled for the kind of processor that builds the image; on another kind the first start compiles again.
RUN belated warm
VOLUME /var/lib/belated
EXPOSE 8000
HEALTHCHECK --start-period=30s --interval=10s --timeout=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["belated"]
CMD ["serve", "--host", "0.0.0.0"]
