import { again } from "./again";
import { client, value } from "./client";

export const login = (ticket: string) => value(client.POST("/login", { body: { ticket } }));
export const logout = () => value(client.POST("/logout", { fetch: again }));
