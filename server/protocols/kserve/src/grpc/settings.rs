//! Settings that clients change while the server runs: traces and the log.

use frontend::{
    exchange::admin::{self, TracedModel},
    grpc::proto::{
        LogSettingsRequest, LogSettingsResponse, TraceSettingRequest, TraceSettingResponse,
        log_settings_request, log_settings_response, trace_setting_response,
    },
    serving::Serving,
};
use inference::error::Error;
use telemetry::logging::LogValue;

pub(super) async fn trace(
    serving: &Serving,
    request: TraceSettingRequest,
) -> Result<TraceSettingResponse, Error> {
    let TraceSettingRequest { settings, model_name } = request;
    let name = Some(&*model_name).filter(|it| !it.is_empty());
    let model = name.map(|name| TracedModel { name, version: None });
    // An empty list means: as the global setting.
    let changes = settings.into_iter().map(|(key, value)| {
        let value = Some(value.value).filter(|it| !it.is_empty());
        (key, value)
    });
    let shown = admin::trace_settings(serving, model, changes.collect()).await?.into_iter();
    let shown = shown.map(|(key, value)| (key, trace_setting_response::SettingValue { value }));
    Ok(TraceSettingResponse { settings: shown.collect() })
}

pub(super) async fn log(
    serving: &Serving,
    request: LogSettingsRequest,
) -> Result<LogSettingsResponse, Error> {
    let mut changes = Vec::new();
    for (key, value) in request.settings {
        use log_settings_request::setting_value::ParameterChoice;
        let value = match value.parameter_choice {
            Some(ParameterChoice::BoolParam(value)) => LogValue::Bool(value),
            Some(ParameterChoice::Uint32Param(value)) => LogValue::Number(value),
            Some(ParameterChoice::StringParam(value)) => LogValue::Text(value),
            None => {
                let expected = "expected bool_param, uint32_param or string_param, given none";
                return Err(Error::InvalidRequest(format!("setting '{key}': {expected}")));
            }
        };
        changes.push((key, value));
    }
    let shown = admin::log_settings(serving, changes).await?.into_iter().map(|(key, value)| {
        use log_settings_response::{SettingValue, setting_value::ParameterChoice};
        let choice = match value {
            LogValue::Bool(value) => ParameterChoice::BoolParam(value),
            LogValue::Number(value) => ParameterChoice::Uint32Param(value),
            LogValue::Text(value) => ParameterChoice::StringParam(value),
        };
        (key.to_owned(), SettingValue { parameter_choice: Some(choice) })
    });
    Ok(LogSettingsResponse { settings: shown.collect() })
}
