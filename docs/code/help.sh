# What the commands say of themselves, for the reference.
export COLUMNS=110
for command in "" compare plan pack memory; do
  echo "\$ sab $command${command:+ }--help"
  sab $command --help
  echo
done
