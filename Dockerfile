# The image of configs/kubernetes.yaml, made by: docker build -t cspeed .
FROM debian:bookworm-slim AS build
COPY . /cspeed
RUN /cspeed/packaging/deb

FROM debian:bookworm-slim
COPY --from=build /cspeed/build-deb/cspeed_*.deb /tmp/
RUN apt-get update && \
    apt-get install -y --no-install-recommends /tmp/cspeed_*.deb && \
    rm -rf /tmp/cspeed_*.deb /var/lib/apt/lists/*
CMD ["cspeed", "--help"]
