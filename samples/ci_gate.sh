#!/usr/bin/env bash
# Converts a model and fails the job by the verdict: the step of action.yml, for any CI.
#
#   MODEL=digits.keras DATA=held_out.npz bash samples/ci_gate.sh
#
# TO (onnx, tflite or all), OUTPUT (a folder), OPTIONS (more of tfmp-convert) and INCONCLUSIVE (fail or
# pass) are optional. Writes drift.html to read, drift.xml for the job's checks (JUnit), drift.json for
# machines. On GitHub, the Markdown goes to the job's summary and the verdict to the step's outputs.
set -uo pipefail
if [ -z "${MODEL:-}" ]; then
  echo "MODEL is not set: set it to a Keras file, a SavedModel or an ONNX file" >&2
  exit 2
fi
case "${INCONCLUSIVE:=fail}" in
  fail | pass) ;;
  *) echo "INCONCLUSIVE expects fail or pass, received $INCONCLUSIVE" >&2; exit 2 ;;
esac
OUTPUT=${OUTPUT:-tfmp}
mkdir -p "$OUTPUT" || exit 2

arguments=("${TO:-all}" "$MODEL" -o "$OUTPUT/" --force)
[ -z "${DATA:-}" ] || arguments+=(--data "$DATA")
for suffix in html json md xml; do
  rm -f "$OUTPUT/drift.$suffix"
  arguments+=(--report "$OUTPUT/drift.$suffix")
done
# Options are words, as on a command line.
# shellcheck disable=SC2206
arguments+=(${OPTIONS:-})

tfmp-convert "${arguments[@]}"
status=$?
case $status in
  0) verdict=PASS ;;
  1) verdict=FAIL ;;
  3) verdict=INCONCLUSIVE ;;
  *) verdict="" ;;
esac
[ -z "${GITHUB_OUTPUT:-}" ] || echo "verdict=$verdict" >> "$GITHUB_OUTPUT"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || [ ! -f "$OUTPUT/drift.md" ] || cat "$OUTPUT/drift.md" >> "$GITHUB_STEP_SUMMARY"
[ "$verdict" != INCONCLUSIVE ] || [ "$INCONCLUSIVE" != pass ] || exit 0
exit $status
