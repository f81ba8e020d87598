// The command that attaches a tool runner to the project that the page works in.
import { project } from "../feeds/app";
import { t } from "../feeds/preferences";
import { workCommand } from "../state/work";
import { CopyLine } from "./parts";

export function WorkCommand() {
  const { text, isRemote } = workCommand(project.value, location);
  return (
    <>
      <CopyLine text={text} />
      {isRemote && <p class="hint">{t("start.token")}</p>}
    </>
  );
}
