# The command sam-rlx with its server and its batches:
#   docker build -t sam-rlx .
#   docker run --rm -p 127.0.0.1:8765:8765 sam-rlx
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" sam-rlx batch photos --output results

FROM debian:trixie-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates g++ python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY CMakeLists.txt LICENSE README.md THIRD_PARTY_NOTICES.md pyproject.toml ./
COPY cmake cmake
COPY cpp cpp
COPY python python
RUN python3 -m venv /opt/sam-rlx \
 && /opt/sam-rlx/bin/pip install --no-cache-dir ".[cli,batch,serve,hub]"

FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libgomp1 python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 sam
COPY --from=build /opt/sam-rlx /opt/sam-rlx
ENV PATH=/opt/sam-rlx/bin:$PATH
USER 10001
WORKDIR /data
EXPOSE 8765
ENTRYPOINT ["sam-rlx"]
CMD ["serve", "--host", "0.0.0.0"]
