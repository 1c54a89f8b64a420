#!/usr/bin/env bash
# Makes FOLDER/python: a Python with ONNX Runtime's WebGPU provider and an adapter with FP16 in
# software, for TFMP_WEBGPU (tests/support/fp16_oracles.py). Nothing is installed outside FOLDER.
#
#   benchmarks/webgpu_python.sh FOLDER
#
# Needs a Debian of any age with apt: Mesa comes from the SUITE below, with its own C library, so that it
# runs beside an older one. On Debian 13 and later `apt install mesa-vulkan-drivers` and a virtual
# environment with onnxruntime-webgpu do as well.
set -euo pipefail
folder=$(mkdir -p "${1:?names no FOLDER}" && cd "$1" && pwd)
suite=${SUITE:-trixie}
python=$(command -v "${PYTHON:-python3}")
python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')

mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 '/debian$')
apt=$folder/apt
mkdir -p "$apt"/{lists,archives}/partial
: >"$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
options=(-o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status"
  -o "Dir::Cache::archives=$apt/archives" -o "Dir::Etc::sourcelist=$apt/sources.list"
  -o Dir::Etc::sourceparts=/nonexistent)
apt-get -qq "${options[@]}" update
apt-get -qq -y "${options[@]}" --no-install-recommends --download-only install \
  mesa-vulkan-drivers libvulkan1 >/dev/null
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done

"$python" -m pip install --quiet --disable-pip-version-check --target "$folder/site" onnxruntime-webgpu numpy
libraries=$folder/root/usr/lib/x86_64-linux-gnu
printf '{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "%s"}}\n' \
  "$libraries/libvulkan_lvp.so" >"$folder/lavapipe.json"
cat >"$folder/python" <<END
#!/bin/sh
export PYTHONPATH="$folder/site" VK_DRIVER_FILES="$folder/lavapipe.json"
exec "$libraries/ld-linux-x86-64.so.2" --library-path \\
  "$libraries:$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')" "$python" "\$@"
END
chmod +x "$folder/python"
"$folder/python" -c 'import onnxruntime as o; print(o.__version__, o.get_available_providers())'
