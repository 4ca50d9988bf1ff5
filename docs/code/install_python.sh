# Builds and installs the Python package from the source.
# slow
python3 -m venv --system-site-packages venv
PATH=$PWD/venv/bin:$PATH
cd "$REPOSITORY"
packages="g++ cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libzstd-dev liblmdb-dev libhiredis-dev"
dpkg -s $packages > /dev/null
# [install]
# apt install g++ cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libzstd-dev liblmdb-dev libhiredis-dev
pip install "./bindings/python[cli]" # without [cli]: no command line
python -c "import sab; print(sab.__version__)"
# [end]
