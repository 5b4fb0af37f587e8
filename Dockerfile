# docker build -t probi . && docker run --rm -v "$PWD:/data" probi cluster sensors.parquet --layout long -k 20 -o out
# Files of /data are read and written as user 1000; another one: docker run --user "$(id -u):$(id -g)" ...

FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY docs/reference/probi.1 docs/reference/
RUN pip install --no-cache-dir --no-compile --prefix /install ".[plot,stores,xarray]"

FROM python:3.13-slim
COPY --from=build /install /usr/local
# Compiled kernels are kept here, so that a container that is started again need not compile them.
ENV NUMBA_CACHE_DIR=/var/cache/probi
RUN useradd --uid 1000 --create-home probi && mkdir -m 1777 /var/cache/probi && mkdir /data && chown probi /data
USER probi
WORKDIR /data
ENTRYPOINT ["probi"]
CMD ["--help"]
