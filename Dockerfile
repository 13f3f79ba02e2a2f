# muster in an image of its own. docs/reference/container.md tells how to build, run and change it.
#
#   docker build -t muster .
#   docker build -t muster:small --build-arg RUNTIME=scratch .
#   docker build -t muster:torch --build-arg TORCH=1 .
#   docker build -t muster:tensorflow --build-arg TENSORFLOW=1 .
#   docker build -t muster:gpu   --build-arg GPU=1 .
#
# TORCH, TENSORFLOW and GPU are 1, or not given. RUNTIME is an image with glibc 2.36 or later and libstdc++, or
# `scratch`, and then these two go into the image.
ARG RUNTIME=debian:bookworm-slim
ARG GPU

# What decides about dependencies: manifests, the lock file, build scripts. The first file of each crate is emptied and
# all else is left out, so that a change there changes nothing here, and what is built from this comes from the cache.
FROM rust:1-slim-bookworm AS manifests
WORKDIR /source
COPY . .
RUN find . -type f ! -name '*.rs' ! -name Cargo.toml ! -name Cargo.lock ! -name 'prepare*.py' \
        ! -path './.cargo/*' ! -path '*/proto/*' -delete \
 && find . -path '*/src/*' -name '*.rs' ! -path '*/src/lib.rs' ! -path '*/src/main.rs' ! -path '*/src/bin/*' -delete \
 && find . -name '*.rs' ! -name build.rs \
        -exec sh -c 'for it; do echo "#![allow(warnings)] fn main() { }" >"$it"; done' sh {} + \
 && find . -type d -empty -delete

FROM rust:1-slim-bookworm AS tools
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ libturbojpeg0 locales python3 python3-pip \
 && rm -rf /var/lib/apt/lists/*
# The locale that ONNX models of texts ask for. They change the case of letters and sort nothing: the order of the
# locale `C` takes 2.6 MB less.
RUN mkdir /locale \
 && localedef --no-archive -i en_US -f UTF-8 /locale/en_US.utf8 \
 && cp /usr/lib/locale/C.utf8/LC_COLLATE /locale/en_US.utf8/
ENV CARGO_TARGET_DIR=/target \
    CARGO_PROFILE_DIST_STRIP=symbols \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /source

# Libraries for GPUs; nothing without GPU=1. A wheel is refused unless its digest is the one in the list.
FROM tools AS gpu
ARG TORCH
ARG TENSORFLOW
ARG GPU
ARG RUNTIME
COPY backends/onnxruntime/gpu-requirements.txt onnxruntime.txt
COPY backends/pytorch/gpu-requirements.txt pytorch.txt
RUN for it in "TORCH=$TORCH" "TENSORFLOW=$TENSORFLOW" "GPU=$GPU"; do \
        case "$it" in *=|*=1) ;; *) echo "$it: expected 1, or not to be given" >&2; exit 1;; esac; \
    done \
 && mkdir -p /image/opt/muster/lib \
 && if [ -n "$GPU" ] && [ "$RUNTIME" = scratch ]; then \
        echo "GPU=1: expected a RUNTIME with the libraries of a distribution, given scratch" >&2; exit 1; \
    elif [ -n "$GPU" ]; then \
        python3 -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes \
            --target /gpu -r onnxruntime.txt ${TORCH:+-r pytorch.txt} \
     && cd /gpu/onnxruntime/capi \
     && mv libonnxruntime.so.* libonnxruntime_providers_shared.so libonnxruntime_providers_cuda.so /image/opt/muster/lib/ \
     && cd /gpu && mkdir -p /image/opt/muster/licenses \
     && find . -iname 'license*' -type f -exec cp --parents -t /image/opt/muster/licenses {} + \
     && cp --parents onnxruntime/ThirdPartyNotices.txt /image/opt/muster/licenses \
     && find /gpu/nvidia -name '*.so*' ! -name '*.alt.so*' -exec mv -t /image/opt/muster/lib {} + \
     && chmod -R a+rX,go-w /image \
     && rm -rf /gpu; \
    fi

# Dependencies, ONNX Runtime and libtorch. What needs no argument comes first, so that all images share it.
FROM tools AS build
COPY --from=manifests /source ./
# The notices are of crates that another target or a test may bring, too: all are fetched here.
RUN cargo build --profile dist --locked -p muster -p muster-bench -p muster-recommend \
 && cargo fetch --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
ARG TORCH
ARG TENSORFLOW
ARG GPU
RUN if [ -n "$TENSORFLOW" ]; then python3 backends/tensorflow/prepare.py; fi
# `tch` comes here too: its C++ takes minutes, and does not change with the sources.
RUN if [ -n "$TORCH" ]; then \
        python3 backends/pytorch/prepare.py --fetch-only ${GPU:+--gpu} \
     && cargo build --release --locked -p tch; \
    fi

# The server. Files keep their times when they are copied, and would look older than what was built from empty ones.
COPY . .
RUN find . -name '*.rs' -exec touch {} + \
 && cargo build --profile dist --locked --offline -p muster -p muster-bench -p muster-recommend \
 && if [ -n "$TORCH" ]; then CARGO_NET_OFFLINE=true python3 backends/pytorch/prepare.py ${GPU:+--gpu}; fi \
 && CARGO_NET_OFFLINE=true python3 deploy/package.py --notices /notices ${TORCH:+--pytorch-plugin}

# Two trees that are laid over the runtime image: libraries, which stay the same for many versions, and the program.
# Everybody may read all of it, whatever the umask was under which the sources were checked out.
ARG RUNTIME
RUN mkdir -p /image/libraries/opt/muster/lib /image/libraries/opt/muster/licenses/libjpeg-turbo \
        /image/libraries/usr/lib/locale /image/program/opt/muster && cd /image \
 && cp -L /usr/lib/*/libturbojpeg.so.0 libraries/opt/muster/lib/ \
 && cp /usr/share/doc/libturbojpeg0/copyright libraries/opt/muster/licenses/libjpeg-turbo/ \
 && cp -R /locale/en_US.utf8 libraries/usr/lib/locale/ \
 && cp /target/dist/muster /target/dist/muster-bench /target/dist/muster-recommend /source/LICENSE program/opt/muster/ \
 && cp -R /notices program/opt/muster/licenses \
 && ln -s opt/muster/muster program/muster \
 && mkdir -p program/usr/local/bin program/usr/bin program/opt/tritonserver/bin \
 && ln -s /opt/muster/muster program/usr/bin/tensorflow_model_server \
 && ln -s /opt/muster/muster program/usr/bin/tf_serving_entrypoint.sh \
 && ln -s /opt/muster/muster program/usr/local/bin/tritonserver \
 && ln -s /opt/muster/muster program/usr/local/bin/text-embeddings-router \
 && ln -s /opt/muster/muster program/opt/tritonserver/bin/tritonserver \
 && if [ -z "$GPU" ]; then \
        mkdir -p libraries/opt/muster/licenses/onnxruntime \
     && cp /target/onnxruntime-*/libonnxruntime.so.* libraries/opt/muster/lib/ \
     && cp /target/onnxruntime-*/LICENSE /target/onnxruntime-*/ThirdPartyNotices.txt libraries/opt/muster/licenses/onnxruntime/; \
    fi \
 && if [ -n "$TORCH" ]; then \
        mkdir -p libraries/opt/muster/pytorch program/opt/muster/pytorch \
     && cp -R /target/pytorch/libtorch libraries/opt/muster/pytorch/ \
     && cp /target/pytorch/*.so program/opt/muster/pytorch/; \
    fi \
 && if [ -n "$TENSORFLOW" ]; then \
        mkdir -p libraries/opt/muster && cp -R /target/tensorflow libraries/opt/muster/; \
    fi \
 && if [ "$RUNTIME" = scratch ]; then \
        find . -type f \( -name '*.so*' -o -name muster -o -name 'muster-*' \) -exec ldd {} + | grep -o '[[:space:]]/[^ ]*' | sort -u \
        | grep -v '^[[:space:]]*/image/' | while read -r it; do cp -L --parents "$it" libraries/; done; \
    fi \
 && chmod -R a+rX,go-w .

FROM ${RUNTIME} AS runtime
LABEL org.opencontainers.image.title="muster" \
      org.opencontainers.image.description="A model server" \
      org.opencontainers.image.licenses="Apache-2.0" \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port="true" \
      com.amazonaws.sagemaker.capabilities.multi-models="true" \
      com.amazonaws.sagemaker.capabilities.bidirectional-streaming="true"

FROM runtime AS runtime-gpu
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LD_LIBRARY_PATH=/opt/muster/lib

FROM runtime${GPU:+-gpu}
# Who can reach the ports is the container's to decide. Outside of one they are open to the machine alone.
ENV MUSTER_HTTP_ADDRESS=0.0.0.0
COPY --from=gpu /image/ /
COPY --from=build /image/libraries/ /
COPY --from=build /image/program/ /
WORKDIR /
EXPOSE 8000 8001 8002 8080
STOPSIGNAL SIGTERM
# While models load the answer is no, and does not count for the first five minutes.
HEALTHCHECK --interval=5s --timeout=3s --start-period=5m --retries=3 CMD ["/muster", "health"]
ENTRYPOINT ["/muster"]
