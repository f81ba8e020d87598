import { t } from "../feeds/preferences";
import { Mark } from "./Icon";
import { CopyLine, TextWithDetails } from "./parts";

export function LoginView({ failure }: { failure: string | undefined }) {
  return (
    <main class="login">
      <Mark />
      <h1>{t("login.title")}</h1>
      {failure !== undefined && (
        <p class="bad" role="alert">
          <TextWithDetails text={t("login.failed")} details={failure} />
        </p>
      )}
      <p>{t("login.text")}</p>
      <CopyLine text="codelab login-link --user N" />
    </main>
  );
}
