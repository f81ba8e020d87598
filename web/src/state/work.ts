// The command that attaches a tool runner, as the user has to type it.
const LOCAL_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

interface Place {
  hostname: string;
  origin: string;
}

/**
 * Without `--project` the tool runner serves the default project, and without `--url` the server of its own machine.
 * Another server needs the user's token, which the page does not know.
 */
export function workCommand(project: { project_id: number; is_default: boolean } | undefined, page: Place) {
  const isRemote = !LOCAL_HOSTS.includes(page.hostname);
  const parts = ["codelab work --workspace ."];
  if (project !== undefined && !project.is_default) parts.push(`--project ${project.project_id}`);
  if (isRemote) parts.push(`--url ${page.origin} --token TOKEN`);
  return { text: parts.join(" "), isRemote };
}
